// The stream log on a disk that fails, a folder that goes, and a thread that is gone.
import { mkdtempSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../../../src/base/clock.ts'
import { Commitment } from '../../../../src/base/commitment.ts'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { DedicatedWorker } from '../../../../src/base/threads/supervisor.ts'
import { accountUpdate } from '../../../../src/chain/solana/received-batch.ts'
import type { SolanaUpdate } from '../../../../src/chain/solana/updates.ts'
import { type StreamLog, startWriterThread } from '../../../../src/streams/segments/stream-log.ts'
import { batchFrom, messageOf } from '../../../testkit/geyser-messages.ts'
import {
  chainOf,
  from,
  read,
  rememberAll,
  withVoidBanks,
} from '../../../testkit/replayed-updates.ts'
import { hour, type LogServer, serveLog, turn } from '../../../testkit/stream-log-server.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

const commitments = [Commitment.processed, Commitment.confirmed, Commitment.finalized]
const logs: StreamLog[] = []
let parent: string
let folder: string

beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'failing-disk-'))
  folder = join(parent, 'streams', 'default')
})

afterEach(async () => {
  vi.useRealTimers()
  for (const log of logs.splice(0)) await log.stop()
  rmSync(parent, { recursive: true })
})

async function serve(): Promise<LogServer> {
  const server = await serveLog(folder)
  logs.push(server.log)
  return server
}

describe('a disk that fails', () => {
  const at = (updates: readonly SolanaUpdate[], slot: number) =>
    updates.findIndex((update) => update.slot === slot)

  async function expectAll(log: StreamLog, updates: readonly SolanaUpdate[], slots: number[]) {
    const expected = rememberAll(updates)
    for (const commitment of commitments)
      for (const slot of slots) {
        const replayed = await read(log.replay(from(slot, commitment))!)
        expect(replayed).toEqual(expected(commitment, slot))
      }
  }

  it('loses nothing: what is on it is read, what is not waits, and is written later', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    const updates = withVoidBanks(chainOf(60))
    const { log, sink, thread, errors, feed } = await serve()
    sink.opened(null)
    await feed(updates.slice(0, at(updates, 1020)))
    for (const slot of [1030, 1040]) {
      thread.fail = 'EIO: i/o error, write'
      await feed(updates.slice(at(updates, slot - 10), at(updates, slot)))
      expect(log.counts()).toMatchObject({ isUp: false, resets: 0 })
      await expectAll(log, updates.slice(0, at(updates, slot)), [1000, 1015, slot - 11, slot - 2])
      thread.fail = null
      vi.advanceTimersByTime(10_000)
      thread.run()
      expect(log.counts()).toMatchObject({ isUp: true, resets: 0 })
    }
    await feed(updates.slice(at(updates, 1040)))
    expect(errors).toHaveLength(2)
    await expectAll(log, updates, [1000, 1019, 1020, 1033, 1041, 1055])
    await log.stop()
    const next = await serve()
    expect(next.log.resumeSlot).toBeGreaterThan(1040)
  })

  it('that returns too late begins anew: there is a hole', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    const { log, sink, thread } = await serve()
    sink.opened(2000)
    thread.fail = 'EIO: i/o error, write'
    const data = Buffer.alloc(20 * 1024 * 1024)
    const [key] = new SyntheticSolana().keys
    for (let slot = 2000; log.counts().resets === 0 && slot < 2040; slot++) {
      const account = new SyntheticSolana().account(key!, null)
      const update = accountUpdate({ slot, createdAtMs: 0 }, { ...account, data })
      sink.batch(batchFrom([messageOf(update)]))
      await turn()
      thread.run()
    }
    expect(log.counts()).toMatchObject({ isUp: false, resets: 1 })
    thread.fail = null
    vi.advanceTimersByTime(10_000)
    thread.run()
    expect(log.counts()).toMatchObject({ isUp: true, resets: 1, bytes: 0 })
  })

  it('of a request before the log began anew is over with it', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    const updates = chainOf(40)
    const { log, sink, thread, feed } = await serve()
    sink.opened(null)
    await feed(updates.slice(0, at(updates, 1020)))
    sink.batch(batchFrom([messageOf(updates[at(updates, 1020)]!)]))
    await turn()
    log.hub.restart()
    const reset = thread.requests.pop()!
    expect(reset.kind).toBe('reset')
    thread.requests.push({ kind: 'again', batch: 0 })
    thread.fail = 'EIO: i/o error, write'
    thread.run()
    expect(log.counts().isUp).toBe(false)
    thread.fail = null
    thread.requests.push(reset)
    thread.run()
    expect(log.counts().isUp).toBe(true)
    vi.advanceTimersByTime(10_000)
    expect(thread.requests.map(({ kind }) => kind)).toEqual([])
  })

  it.each(['fails, too', 'is done later'])('leaves no hole where a reset %s', async (reset) => {
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    const { log, sink, thread, feed } = await serve()
    sink.opened(null)
    await feed(chainOf(20))
    sink.beginAnew()
    sink.opened(null)
    const updates = chainOf(40, { firstSlot: 500 })
    const feedSlots = (low: number, high: number) =>
      feed(updates.slice(at(updates, low), at(updates, high)))
    // Eras that close before the reset is done wait, and those after the fault are not taken.
    const run = thread.run
    thread.run = () => {}
    await feedSlots(500, 510)
    thread.run = run
    for (const kind of ['reset', 'era'])
      expect(thread.requests.some((request) => request.kind === kind)).toBe(true)
    const later = reset === 'is done later' ? thread.requests.splice(0) : []
    thread.requests.push({ kind: 'again', batch: 0 })
    thread.fail = 'EIO: i/o error, write'
    thread.run()
    await feedSlots(510, 515)
    expect(log.counts()).toMatchObject({ isUp: false, resets: 1 })
    thread.fail = null
    thread.requests.push(...later)
    if (later.length === 0) vi.advanceTimersByTime(10_000)
    thread.run()
    await feedSlots(515, 530)
    expect(log.counts()).toMatchObject({ isUp: true, resets: 1 })
    const oldest = log.oldestSlot!
    expect(oldest).toBeLessThan(520)
    await expectAll(log, updates.slice(0, at(updates, 530)), [oldest, oldest + 2, 527])
  })

  it('leaves no hole where the nodes show another chain meanwhile', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    const first = await serve()
    first.sink.opened(null)
    await first.feed(chainOf(40))
    const { log, sink, thread, feed } = await serve()
    const low = log.resumeSlot!
    sink.opened(low)
    thread.fail = 'EIO: i/o error, write'
    thread.requests.push({ kind: 'again', batch: 0 })
    thread.run()
    const updates = chainOf(30, { firstSlot: low, seed: 99 })
    await feed(updates.slice(0, at(updates, low + 10)))
    expect(log.counts()).toMatchObject({ isUp: false, resets: 1 })
    thread.fail = null
    vi.advanceTimersByTime(10_000)
    thread.run()
    await feed(updates.slice(at(updates, low + 10)))
    const oldest = log.oldestSlot!
    expect(oldest).toBeGreaterThan(low)
    await expectAll(log, updates, [oldest, oldest + 2, low + 25])
  })

  it('that is full is asked five times before it gets what was kept', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    const updates = chainOf(40)
    const { log, sink, thread, feed } = await serve()
    sink.opened(null)
    await feed(updates.slice(0, at(updates, 1020)))
    const asked = async (slot: number) => {
      thread.fail = 'ENOSPC: no space left on device, write'
      await feed(updates.slice(at(updates, slot), at(updates, slot + 1)))
      const drops: boolean[] = []
      for (let retry = 0; retry < 5; retry++) {
        vi.advanceTimersByTime(10_000)
        for (const request of thread.requests)
          if (request.kind === 'resume') drops.push(request.mayDrop)
        thread.run()
      }
      thread.fail = null
      vi.advanceTimersByTime(10_000)
      thread.run()
      expect(log.counts().isUp).toBe(true)
      for (let turns = 0; turns < 5; turns++) {
        await turn()
        thread.run()
      }
      return drops
    }
    expect(await asked(1020)).toEqual([false, false, false, false, true])
    // Written meanwhile: another full disk is another one.
    expect(await asked(1021)).toEqual([false, false, false, false, true])
  })

  it('with its thread is asked again once there is another one', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    const updates = chainOf(20)
    const { log, sink, thread, feed } = await serve()
    sink.opened(null)
    thread.fail = 'EIO: i/o error, write'
    await feed(updates)
    expect(log.counts().isUp).toBe(false)
    thread.fail = null
    thread.isGone = true
    vi.advanceTimersByTime(10_000)
    thread.isGone = false
    vi.advanceTimersByTime(10_000)
    thread.run()
    expect(log.counts()).toMatchObject({ isUp: true, resets: 0 })
  })

  it.each([
    ['removed', () => rmSync(streams(), { recursive: true })],
    ['moved away', () => renameSync(streams(), join(parent, 'away'))],
    ['replaced by a file', () => replaceByFile(streams())],
    ['itself replaced by a file', () => replaceByFile(folder)],
  ])('is noticed when its folder is %s, said once, and goes on without it', async (_, go) => {
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    const updates = chainOf(40)
    const { log, sink, thread, errors, feed } = await serve()
    sink.opened(null)
    await feed(updates.slice(0, at(updates, 1010)))
    expect(log.counts()).toMatchObject({ isUp: true, resets: 0 })
    go()
    await feed(updates.slice(at(updates, 1010), at(updates, 1013)))
    const down = { isUp: false, resets: 0 }
    expect(log.counts()).toMatchObject(down)
    if (statSync(streams(), { throwIfNoEntry: false })?.isFile()) {
      for (let retry = 0; retry < 3; retry++) {
        vi.advanceTimersByTime(10_000)
        thread.run()
        expect(log.counts()).toMatchObject(down)
      }
      rmSync(streams())
    }
    vi.advanceTimersByTime(10_000)
    thread.run()
    expect(log.counts()).toMatchObject({ isUp: true, resets: 1, bytes: 0 })
    expect(errors).toEqual(['stream log is down: what is published waits'])
    const oldest = log.oldestSlot!
    expect(oldest).toBeGreaterThan(1000)
    expect(oldest).toBeLessThanOrEqual(1010)
    await feed(updates.slice(at(updates, 1013)))
    expect(log.replay(from(oldest - 1, Commitment.processed))).toBeNull()
    await expectAll(log, updates, [oldest + 1, 1020, 1035])
  })
})

describe('a thread that dies', () => {
  it('is started again, however often it has died', async () => {
    const start = vi.spyOn(DedicatedWorker, 'start').mockRejectedValue(new Error('not here'))
    const means = { folder, bounds: hour, clock: systemClock, log: silentLog }
    const events = { report: () => {}, ended: () => {} }
    await expect(startWriterThread(means, events)).rejects.toThrow('not here')
    const [{ backoff }] = start.mock.calls[0]!
    start.mockRestore()
    expect(backoff?.deathsMax).toBe(Number.POSITIVE_INFINITY)
  })
})

const streams = () => join(parent, 'streams')

function replaceByFile(path: string): void {
  rmSync(path, { recursive: true })
  writeFileSync(path, '')
}
