// What is copied for the thread of the stream log: a bounded part of what waits for it.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { Commitment } from '../../../../src/base/commitment.ts'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { SolanaUpstream } from '../../../../src/streams/flows/solana-upstream.ts'
import { openSolanaHub } from '../../../../src/streams/geyser/hub.ts'
import {
  BatchChunks,
  type LaidOut,
  lentBytesMax,
} from '../../../../src/streams/segments/segment-format.ts'
import { type LogRequest, LogThread } from '../../../../src/streams/segments/segment-writer.ts'
import { StreamLog, type ThreadEvents } from '../../../../src/streams/segments/stream-log.ts'
import { batchFrom, messageOf } from '../../../testkit/geyser-messages.ts'
import { chainOf, from, inBatches, read, rememberAll } from '../../../testkit/replayed-updates.ts'

const folder = mkdtempSync(join(tmpdir(), 'batch-chunks-'))
afterEach(() => rmSync(folder, { recursive: true, force: true }))

it('is refused where too much is lent, and taken once a part of it is given back', () => {
  const posted: LaidOut[] = []
  const chunks = new BatchChunks((laidOut) => void posted.push(laidOut))
  const add = (bytes: number) => chunks.add(new Uint8Array(64), Buffer.alloc(bytes))
  // One that is longer than a chunk has memory of its own size.
  expect([add(10), add(20), add(3_000_000)]).toEqual([true, true, true])
  while (add(700_000));
  const lent = () => posted.reduce((sum, { chunk }) => sum + chunk.byteLength, 0)
  expect(posted.slice(0, 2).map(({ ends }) => ends.length)).toEqual([2, 1])
  expect(lent()).toBeGreaterThanOrEqual(lentBytesMax)
  expect(lent()).toBeLessThan(lentBytesMax + 1024 * 1024)
  chunks.giveBack(posted.shift()!.chunk)
  expect(add(10)).toBe(true)
})

it('is what the log sends a slow disk at once; the rest waits, and is written', async () => {
  const bounds = { keepMs: 3_600_000, bytesMax: 1e9, compress: 'none' } as const
  const hub = openSolanaHub({ replaySlots: 4, replayBytesMax: 1e9 })
  const requests: LogRequest[] = []
  let events: ThreadEvents | null = null
  const writer = new LogThread(folder, bounds, (report) => events!.report(report))
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  const run = async () => {
    for (; requests.length > 0; await turn())
      for (const request of requests.splice(0)) writer.take(request)
  }
  const log = new StreamLog(hub, {
    ...{ folder, bounds, log: silentLog },
    startThread: async (own) => {
      events = own
      return { post: (request) => requests.push(request) > 0, stop: async () => writer.stop() }
    },
  })
  await turn()
  await run()
  await log.ready
  const sink = new SolanaUpstream(hub, { bankSalt: 'salt', log: silentLog, earlier: log })
  sink.opened(null)
  const updates = chainOf(60, { dataBytes: 40_000, accounts: 10 })
  for (const batch of inBatches(updates, 1)) {
    sink.batch(batchFrom(batch.map((update) => messageOf(update))))
    await turn()
  }
  const copied = requests.reduce((sum, one) => sum + ('chunk' in one ? one.chunk.byteLength : 0), 0)
  expect(copied).toBe(lentBytesMax)
  await run()
  expect(log.counts()).toMatchObject({ isUp: true, resets: 0, oldestSlot: 1000 })
  expect(log.counts().bytes).toBeGreaterThan(lentBytesMax)
  const replayed = await read(log.replay(from(1000, Commitment.processed))!)
  expect(replayed).toEqual(rememberAll(updates)(Commitment.processed, 1000))
  await log.stop()
})
