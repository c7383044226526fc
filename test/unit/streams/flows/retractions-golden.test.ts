// Without the opt-in no byte changes: streams and subscriptions over replaced banks, dead slots,
// forks and a chain that is set back are compared with what was sent before retractions existed.
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { voidChain } from '../../../testkit/void-banks.ts'
import { filtersOfAll, ownersOf, replayOf, VoidStage } from '../../../testkit/void-readers.ts'

const file = fileURLToPath(new URL('./retractions.golden.json', import.meta.url))
const commitments = ['processed', 'confirmed', 'finalized'] as const

const digest = (bytes: Uint8Array) =>
  `${bytes.length} ${createHash('sha256').update(bytes).digest('hex').slice(0, 32)}`

/** Each stream's and subscription's bytes, by name. */
async function record(seed: number): Promise<Record<string, string>> {
  const { sent } = voidChain(seed, 18)
  const stage = new VoidStage()
  const streams = commitments.map((_, at) => stage.stream(filtersOfAll(at as 0 | 1 | 2)))
  const ids = new Map<string, number>()
  for (const commitment of commitments) {
    const config = { commitment, encoding: 'base64' }
    ids.set(`logs ${commitment}`, stage.subscribe('logs', 'allWithVotes', config))
    ids.set(`transaction ${commitment}`, stage.subscribe('transaction', {}, config))
    for (const [at, owner] of ownersOf(sent.slice(0, 100)).entries())
      ids.set(`program ${at} ${commitment}`, stage.subscribe('program', owner, config))
  }
  for (const topic of ['slot', 'slotsUpdates', 'root']) ids.set(topic, stage.subscribe(topic))
  stage.sink.opened(null)
  stage.send(sent)
  await stage.flush()
  const recorded: Record<string, string> = {}
  for (const [at, stream] of streams.entries()) {
    recorded[`${seed} grpc ${commitments[at]}`] = digest(stream.bytes)
    const replay = await replayOf(stage.hub, filtersOfAll(at as 0 | 1 | 2), 1_000)
    recorded[`${seed} replay ${commitments[at]}`] = digest(replay.bytes)
  }
  for (const [name, id] of ids)
    recorded[`${seed} ${name}`] = digest(Buffer.from((stage.notified.get(id) ?? []).join('\n')))
  stage.stop()
  return recorded
}

it('sends what it sent before to whoever did not ask for retractions', async () => {
  const recorded = Object.assign({}, await record(1), await record(2))
  if (process.env.SLUICE_RECORD === '1')
    writeFileSync(file, `${JSON.stringify(recorded, null, 2)}\n`)
  expect(recorded).toEqual(JSON.parse(readFileSync(file, 'utf8')))
})
