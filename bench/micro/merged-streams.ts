// What each further geyser stream of a set costs the thread that merges them. Thread: main of the
// bench process. ops/s are published updates: all streams send the same slots, interleaved by
// batches, so with n streams n times as many are read. Reading HTTP/2 is the worker's part, which
// costs n times as much; geyser-ingest measures it.
import { silentLog } from '../../src/base/telemetry/log.ts'
import type { GeyserBatch } from '../../src/chain/solana/geyser-batch.ts'
import { SolanaUpstream } from '../../src/streams/flows/solana-upstream.ts'
import { openSolanaHub } from '../../src/streams/geyser/hub.ts'
import { batchFrom, messageOf } from '../../test/testkit/geyser-messages.ts'
import { SyntheticSolana } from '../../test/testkit/synthetic-solana.ts'
import type { Bench, Contender } from '../lib/bench.ts'
import { singleFunction } from '../lib/single-function.ts'

const slots = 8
const perBatch = 100

const chain = new SyntheticSolana({ transactionsPerSlot: 400, dataBytes: 400, finalizedAfter: 4 })
const messages = Array.from({ length: slots }, () => chain.next())
  .flat()
  .filter(({ kind }) => kind !== 'block')
  .map((update) => messageOf(update))
const batches: GeyserBatch[] = []
for (let at = 0; at < messages.length; at += perBatch)
  batches.push(batchFrom(messages.slice(at, at + perBatch)))

export const bench: Bench = {
  name: 'merged-streams',
  question: 'What does each further geyser stream of a set cost the thread that merges them?',
  cores: 1,
  baseline: contender(1),
  candidates: [contender(2), contender(3), contender(4)],
  verify({ evidence }) {
    const { published = 0, once = -1 } = evidence ?? {}
    return published === once ? undefined : `${published} updates were published instead of ${once}`
  },
}

function contender(streams: number): Contender {
  let published = 0
  return singleFunction({
    name: `merge ${streams}`,
    callsEach: messages.length,
    call() {
      published = publish(streams)
    },
    evidence: () => ({ published, once: publish(1) }),
  })
}

/** Items and metas that were published at processed. */
function publish(streams: number): number {
  const hub = openSolanaHub()
  let published = 0
  hub.listen((commitment, { kind }) => {
    if (commitment === 0 && kind !== 'slot') published++
  })
  const sink = new SolanaUpstream(hub, { log: silentLog })
  for (let stream = 0; stream < streams; stream++) sink.opened(0, stream, `node ${stream}`)
  for (const batch of batches)
    for (let stream = 0; stream < streams; stream++) sink.batch(batch, stream)
  return published
}
