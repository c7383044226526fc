// Writes rows without end and prints each step that was acknowledged; made to be killed.
// Its argument is JSON; it prints `from 5`, `5`, `cut 4` (before a cut), `failed true message`.
import { openDuckdbSink } from '../../dist/src/indexer/duckdb/sink.js'

const options = JSON.parse(process.argv[2])
const { folder, hotBytesMax, publishEvery = 0, cutEvery = 0, pendingCut = null, kill } = options
const perSlot = 200
// A write beyond the limit of the file size is then an error, and not the end of the process.
process.on('SIGXFSZ', () => {})

const print = (line) => process.stdout.write(`${line}\n`)
let entered = 0
const sink = await openDuckdbSink(folder, {
  retentionMs: 1e12,
  retentionBytes: 1e12,
  hotBytesMax,
  onState(state) {
    if (state === kill?.state && ++entered === kill.count) process.kill(process.pid, 'SIGKILL')
  },
})
if (pendingCut !== null) await sink.cut(pendingCut, pendingCut)
let slot = ((await sink.marks()).slots ?? 0) + 1
let lastCut = slot
print(`from ${slot}`)
for (;;) {
  try {
    await sink.write([transactions(slot)], { slots: slot })
    print(slot)
    if (publishEvery > 0 && slot % publishEvery === 0) await sink.publish()
    if (cutEvery > 0 && slot >= lastCut + cutEvery) {
      lastCut = slot
      print(`cut ${slot}`)
      await sink.cut(slot, slot)
    } else slot += 1
  } catch (error) {
    print(`failed ${error.retryable} ${error.message}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** @returns {import('../../dist/src/indexer/engine.js').RowBatch} */
function transactions(at) {
  const column = (cell) => Array.from({ length: perSlot }, (_, idx) => cell(idx))
  return {
    table: 'transactions',
    count: perSlot,
    columns: [
      column(() => at),
      column((idx) => idx),
      column((idx) => `signature ${at} ${idx}`.padEnd(88, 'x')),
      column((idx) => `payer ${idx}`),
      column(() => 1),
      column(() => ''),
      column(() => 5000),
      column(() => 150),
      column(() => 0),
      column(() => 1_700_000_000 + at),
    ],
  }
}
