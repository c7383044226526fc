// Writes rows without end and tells each write that was acknowledged; made to be killed.
import { openDuckdbSink } from '../../dist/src/products/indexer/duckdb/sink.js'

const [folder, hotBytesMax] = process.argv.slice(2)
const perSlot = 200
const sink = await openDuckdbSink(folder, {
  retentionMs: 1e12,
  retentionBytes: 1e12,
  hotBytesMax: Number(hotBytesMax),
})
let slot = ((await sink.marks()).slots ?? 0) + 1
process.stdout.write(`from ${slot}\n`)
for (;;) {
  const rows = Array.from({ length: perSlot }, (_, idx) => [slot, idx])
  const column = (cell) => rows.map(cell)
  await sink.write(
    [
      {
        table: 'transactions',
        count: perSlot,
        columns: [
          column(([at]) => at),
          column(([, idx]) => idx),
          column(([at, idx]) => `signature ${at} ${idx}`.padEnd(88, 'x')),
          column(([, idx]) => `payer ${idx}`),
          column(() => 1),
          column(() => ''),
          column(() => 5000),
          column(() => 150),
          column(() => 0),
          column(([at]) => 1_700_000_000 + at),
        ],
      },
    ],
    { slots: slot },
  )
  process.stdout.write(`${slot}\n`)
  slot += 1
}
