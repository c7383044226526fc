// The gateway's streams for the index, on their Unix socket.
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import type { Parcel } from '../../src/indexer/engine.ts'
import { FeedReader } from '../../src/indexer/feed/feed-reader.ts'
import { type IndexFeeds, openIndexFeeds } from '../../src/products/indexer/feeds.ts'
import { openSolanaHub, publishUpdate, type SolanaHub } from '../../src/streams/geyser/hub.ts'
import { EventLog } from '../../src/streams/log/log.ts'
import { GeyserClient } from '../../src/upstream/geyser/geyser-client.ts'
import { handOutSeqs } from '../testkit/fake-execution.ts'
import { chainOf } from '../testkit/ingest-stage.ts'
import { SyntheticSolana } from '../testkit/synthetic-solana.ts'
import { until } from '../testkit/until.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-feeds-'))
const path = join(folder, 'index.sock')
const events = new EventLog({ reserve: handOutSeqs(0), clock: systemClock })
const hub = openSolanaHub({ replaySlots: 150, replayBytesMax: 64 << 20 })
let feeds: IndexFeeds

beforeAll(async () => {
  const deps = { events, version: '0', clock: systemClock, log: silentLog }
  feeds = await openIndexFeeds(path, deps)
  feeds.serve(chainOf(hub))
})
afterAll(async () => {
  await feeds.stop()
  rmSync(folder, { recursive: true })
})

function publish(to: SolanaHub, solana: SyntheticSolana, slots: number): void {
  for (let left = slots; left > 0; left--)
    for (const update of solana.next()) publishUpdate(to, update)
}

/** What a writer with this mark reads. */
function read(slots?: number) {
  const parcels: Parcel[] = []
  const lost: [string, number][] = []
  const reader = new FeedReader({
    gateways: feeds.gateways,
    marks: slots === undefined ? {} : { slots },
    cursors: {},
    take: (parcel) => void parcels.push(parcel),
    lost: (feed, count) => void lost.push([feed, count]),
    clock: systemClock,
  })
  const marks = (feed: string) =>
    parcels.flatMap((one) => (one.feed === feed && one.mark !== null ? [one.mark] : []))
  return { reader, parcels, lost, marks }
}

test('only the user of the server can open the socket, and only with its secret', async () => {
  expect(statSync(path).mode & 0o777).toBe(0o600)
  const target = { address: 'http://gateway', path, xToken: 'x'.repeat(64) }
  const client = new GeyserClient(target, systemClock)
  const answer = await client.call('GetVersion', new Uint8Array(0), 5_000)
  expect(answer).toMatchObject({ ok: false, refusal: { data: { kind: 'status', code: 7 } } })
  client.close()
})

test('a reader gets every slot, frame and fact, and again all that its index lacks', async () => {
  const solana = new SyntheticSolana({ firstSlot: 10 })
  publish(hub, solana, 20)
  for (const tps of [1, 2, 3]) events.append('TPS', Buffer.from(String(tps)))
  const tip = { signature: 's', feePayer: 'p', tipAccount: 't', outcome: 'landed', reason: '' }
  const lamports = 2n ** 60n
  feeds.tip({ receivedAtMs: 1, lamports, landedSlot: 2, ...tip })
  const first = read()
  await until(() => first.marks('slots').length === 19 && first.parcels.length === 23, 'all of it')
  publish(hub, solana, 5)
  await until(() => first.marks('slots').length === 24, 'the live slots')
  expect(first.marks('slots')).toEqual(Array.from({ length: 24 }, (_, index) => 10 + index))
  expect(first.marks('events')).toEqual([1, 2, 3])
  const tips = first.parcels.flatMap((one) => (one.feed === 'tips' ? [one.content] : []))
  expect(tips).toMatchObject([{ lamports, signature: 's' }])
  expect(first.lost).toEqual([])
  first.reader.stop()

  const second = read(20)
  await until(() => second.marks('slots').length === 24, 'what it lacks, and what it compares')
  const cuts = second.parcels.flatMap((one) => (one.feed === 'slots' && one.cut ? [one.cut] : []))
  expect(cuts.map(({ from }) => from)).toEqual(Array.from({ length: 11 }, (_, index) => 10 + index))
  expect(second.lost).toEqual([])
  second.reader.stop()
})

test('a reader goes on in a chain that begins anew, and counts slots that are not kept', async () => {
  const { reader, marks, lost } = read(100)
  hub.restart()
  publish(hub, new SyntheticSolana({ firstSlot: 103, seed: 9 }), 5)
  await until(() => marks('slots').length === 4, 'the new chain')
  expect(marks('slots')).toEqual([103, 104, 105, 106])
  expect(lost).toEqual([['slots', 2]])
  hub.restart()
  publish(hub, new SyntheticSolana({ firstSlot: 50, seed: 10 }), 5)
  await until(() => marks('slots').length === 8, 'the next one, below it')
  expect(marks('slots').slice(4)).toEqual([50, 51, 52, 53])
  reader.stop()
})

test('a gateway that reads its first slots between two questions loses none of them', async () => {
  const late = openSolanaHub({ replaySlots: 150, replayBytesMax: 64 << 20 })
  const chain = chainOf(late)
  let isFirst = true
  /** What the gateway said to the first question is not true any more. */
  const answered = <T>(answer: T): T => {
    if (isFirst) publish(late, new SyntheticSolana({ firstSlot: 100 }), 20)
    isFirst = false
    return answer
  }
  feeds.serve({
    ...chain,
    heads: {
      at: (commitment) => answered(chain.heads.at(commitment)),
      isBlockhashValid: () => null,
    },
    streamLog: {
      get oldestSlot() {
        return answered(late.oldestSlot)
      },
      replay: ({ commitment, fromSlot }) => late.replay(commitment, fromSlot),
    },
  })
  const { reader, marks, lost } = read(110)
  await until(() => marks('slots').length === 19, 'slots that were kept')
  expect(marks('slots').at(-1)).toBe(118)
  expect(lost).toEqual([])
  reader.stop()
})

test('events that one gateway has not are read from the next one', async () => {
  const logs = [1, 2].map(
    () => new EventLog({ reserve: () => null, clock: systemClock, isShared: true }),
  )
  for (const log of logs) log.restart('R', 0)
  const others = await Promise.all(
    logs.map((log, at) =>
      openIndexFeeds(join(folder, `other${at}.sock`), {
        ...{ events: log, version: '0', clock: systemClock, log: silentLog },
      }),
    ),
  )
  const tps = (seq: number, ...to: EventLog[]) => {
    const frame = { kind: 'TPS' as const, payload: Buffer.from('1'), sinceMs: 0, facts: null }
    for (const log of to) log.accept(seq, frame)
  }
  const seqs: number[] = []
  const reader = new FeedReader({
    gateways: others.flatMap(({ gateways }) => gateways),
    marks: {},
    cursors: {},
    take: ({ feed, mark }) => void (feed === 'events' && seqs.push(mark!)),
    lost() {},
    stalledMs: 100,
    clock: systemClock,
  })
  tps(1, ...logs)
  await until(() => seqs.length === 1, 'an event of the first one')
  // From here on the first one cannot read what gateways share.
  for (const seq of [2, 3]) tps(seq, logs[1]!)
  await until(() => seqs.length === 3, 'those of the second one')
  expect(seqs).toEqual([1, 2, 3])
  reader.stop()
  await Promise.all(others.map((other) => other.stop()))
})
