// The log of a hub with little memory against a hub that remembers everything: a replay from any
// slot, at any commitment, has the same updates in the same order.
import { hash } from 'node:crypto'
import { mkdtempSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Commitment } from '../../../../src/base/commitment.ts'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { accountUpdate, slotUpdate } from '../../../../src/chain/solana/update-build.ts'
import { type SolanaUpdate, slotStatus } from '../../../../src/chain/solana/updates.ts'
import { SolanaUpstream } from '../../../../src/streams/flows/solana-upstream.ts'
import { openSolanaHub } from '../../../../src/streams/geyser/hub.ts'
import type { KeptReplay } from '../../../../src/streams/segments/kept-replay.ts'
import type { LogBounds } from '../../../../src/streams/segments/segment-writer.ts'
import {
  StreamLog,
  type ThreadEvents,
  waitingBytesMax,
} from '../../../../src/streams/segments/stream-log.ts'
import { type LogRequest, LogThread } from '../../../../src/streams/segments/writer-thread.ts'
import { batchFrom, messageOf } from '../../../testkit/geyser-messages.ts'
import { randomOf, SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

const commitments = [Commitment.processed, Commitment.confirmed, Commitment.finalized]
const hour: LogBounds = { keepMs: 3_600_000, bytesMax: 1e9, compress: 'none' }
let parent: string
let folder: string

beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'stream-log-'))
  folder = join(parent, 'streams', 'default')
})

afterEach(() => {
  vi.useRealTimers()
  rmSync(parent, { recursive: true })
})

const digest = (bytes: Uint8Array) => hash('sha1', bytes).slice(0, 12)

/** Everything a subscriber can be sent of it. */
function textOf(update: SolanaUpdate): string {
  if (update.kind === 'retraction')
    return `${update.slot} retraction ${digest(update.body)} of ${[...update.restated].map(textOf)}`
  if (update.kind === 'slot') return `${update.slot} status ${update.status}`
  if (update.kind !== 'block') return `${update.slot} ${update.kind} ${digest(update.body)}`
  const { slot, meta, transactions, accounts, entries } = update
  const parts = [meta, ...transactions, ...accounts, ...entries]
  return `${slot} block ${parts.map(({ body }) => digest(body)).join(' ')}`
}

interface Server {
  readonly log: StreamLog
  readonly sink: SolanaUpstream
  /** Stands in for the thread: requests wait until they are run. */
  readonly thread: { run(): void; fail: string | null; requests: LogRequest[] }
  readonly errors: string[]
  feed(updates: readonly SolanaUpdate[], seed?: number): Promise<void>
}

async function serve(bounds = hour, memorySlots = 4): Promise<Server> {
  const hub = openSolanaHub({ replaySlots: memorySlots, replayBytesMax: 1e9 })
  let events: ThreadEvents | null = null
  const writer = new LogThread(folder, bounds, (report) => events!.report(report))
  const thread: Server['thread'] = {
    fail: null,
    requests: [],
    run() {
      for (const request of thread.requests.splice(0))
        if (thread.fail === null || request.kind === 'open') writer.take(request)
        else events!.report({ kind: 'failed', reason: thread.fail })
    },
  }
  const errors: string[] = []
  const log = new StreamLog(hub, {
    ...{ folder, bounds, log: { ...silentLog, error: (text: string) => void errors.push(text) } },
    startThread: async (own) => {
      events = own
      return { post: (request) => void thread.requests.push(request), stop: async () => {} }
    },
  })
  await turn()
  thread.run()
  await log.ready
  const sink = new SolanaUpstream(hub, { bankSalt: 'salt', log: silentLog, earlier: log })
  const feed = async (updates: readonly SolanaUpdate[], seed = 1) => {
    for (const batch of inBatches(updates, seed)) {
      sink.batch(batchFrom(batch.map((update) => messageOf(update))))
      await turn()
      thread.run()
    }
  }
  return { log, sink, thread, errors, feed }
}

const turn = () => new Promise((resolve) => setImmediate(resolve))

/** Batches of one to 60 updates, wherever slots begin and end. */
function inBatches(updates: readonly SolanaUpdate[], seed: number): SolanaUpdate[][] {
  const random = randomOf(seed)
  const left = updates.filter(({ kind }) => kind !== 'block')
  const batches: SolanaUpdate[][] = []
  while (left.length > 0) batches.push(left.splice(0, 1 + Math.floor(random() * 60)))
  return batches
}

const chainOf = (slots: number, options = {}) => {
  const chain = new SyntheticSolana({ confirmedAfter: 2, finalizedAfter: 8, ...options })
  return Array.from({ length: slots }, () => chain.next()).flat()
}

/** Every third slot has a bank before its own, of which two items come late. */
function withVoidBanks(updates: readonly SolanaUpdate[]): SolanaUpdate[] {
  const isItem = ({ kind }: SolanaUpdate) => ['account', 'transaction', 'entry'].includes(kind)
  return updates.flatMap((update) => {
    const { slot, createdAtMs } = update
    const isBank = update.kind === 'slot' && update.status === slotStatus.createdBank
    if (!isBank || slot % 3 !== 0) return [update]
    const items = updates.filter((one) => one.slot === slot && isItem(one))
    const before = slotUpdate({ slot, createdAtMs }, { parent: slot - 2, status: update.status })
    return [before, ...items.slice(0, 7), update, ...items.slice(7, 9)]
  })
}

/** A hub that forgets nothing. */
function rememberAll(updates: readonly SolanaUpdate[]) {
  const hub = openSolanaHub({ replaySlots: 1e6, replayBytesMax: 1e12 })
  const sink = new SolanaUpstream(hub, { bankSalt: 'salt', log: silentLog })
  sink.opened(null)
  for (const batch of inBatches(updates, 7))
    sink.batch(batchFrom(batch.map((update) => messageOf(update))))
  return (commitment: Commitment, fromSlot: number) => {
    const replay = hub.replay(commitment, fromSlot)!
    const texts: string[] = []
    for (let one = replay.next(); one !== null; one = replay.next()) texts.push(textOf(one))
    return texts
  }
}

/** Reads to the end, or `count` updates. */
async function read(replay: KeptReplay, count = Number.POSITIVE_INFINITY): Promise<string[]> {
  const texts: string[] = []
  while (texts.length < count) {
    if (replay.isLost) throw new Error('lost')
    const update = replay.next()
    if (update === null) return texts
    if (update !== 'loading') texts.push(textOf(update))
    else if (!replay.isLost)
      await new Promise<void>((resolve) => {
        replay.onLoaded = resolve
      })
  }
  return texts
}

const from = (fromSlot: number, commitment: Commitment, wantsBlocks = true) => ({
  fromSlot,
  commitment,
  wantsBlocks,
})

describe('a replay from the log', () => {
  it.each(['none', 'zstd'] as const)('is what was published, %s', async (compress) => {
    const updates = chainOf(40)
    const expected = rememberAll(updates)
    const { log, sink, feed } = await serve({ ...hour, compress })
    sink.opened(null)
    await feed(updates)
    expect(log.oldestSlot).toBe(1000)
    expect(log.hub.oldestSlot).toBe(1036)
    for (const commitment of commitments)
      for (const slot of [1000, 1001, 1017, 1034, 1036, 1039]) {
        const replayed = await read(log.replay(from(slot, commitment))!)
        expect(replayed).toEqual(expected(commitment, slot))
      }
    expect(log.replay(from(999, Commitment.processed))).toBeNull()
  })

  it('has the retractions where they were, with what they restate', async () => {
    const updates = withVoidBanks(chainOf(36))
    const expected = rememberAll(updates)
    const { log, sink, feed } = await serve()
    sink.opened(null)
    await feed(updates)
    const all = expected(Commitment.processed, 1001)
    expect(all.filter((text) => / retraction /.test(text)).length).toBeGreaterThan(20)
    expect(all.some((text) => / retraction \S+ of .*transaction/.test(text))).toBe(true)
    for (const commitment of commitments)
      expect(await read(log.replay(from(1001, commitment))!)).toEqual(expected(commitment, 1001))
  })

  it('has no block where none is asked for, and the rest', async () => {
    const updates = chainOf(20)
    const { log, sink, feed } = await serve()
    sink.opened(null)
    await feed(updates)
    const all = rememberAll(updates)(Commitment.confirmed, 1003)
    const replayed = await read(log.replay(from(1003, Commitment.confirmed, false))!)
    const inMemory = / block /
    expect(replayed.filter((text) => !inMemory.test(text))).toEqual(
      all.filter((text) => !inMemory.test(text)),
    )
  })

  it('goes on from the files when the memory of a slow reader is evicted', async () => {
    const updates = chainOf(60)
    const expected = rememberAll(updates)
    const { log, sink, feed } = await serve()
    sink.opened(null)
    let fed = 0
    const feedTo = (end: number) => {
      const begin = fed
      fed = updates.findIndex(({ slot }) => slot === end)
      return feed(updates.slice(begin, fed))
    }
    await feedTo(1022)
    for (const commitment of commitments) {
      const replay = log.replay(from(log.hub.oldestSlot! - 10, commitment))!
      const begin = log.hub.oldestSlot! - 10
      const first = await read(replay, 17)
      await feedTo(log.hub.newestSlot! + 12)
      const rest = await read(replay)
      const all = expected(commitment, begin)
      expect([...first, ...rest]).toEqual(all.slice(0, first.length + rest.length))
      expect(rest.length).toBeGreaterThan(50)
    }
  })

  it('reads eras that wait to be written', async () => {
    const updates = chainOf(30)
    const expected = rememberAll(updates)
    const { log, sink, thread } = await serve()
    sink.opened(null)
    for (const batch of inBatches(updates, 3))
      sink.batch(batchFrom(batch.map((update) => messageOf(update))))
    await turn()
    expect(thread.requests.length).toBeGreaterThan(20)
    for (const commitment of commitments)
      expect(await read(log.replay(from(1002, commitment))!)).toEqual(expected(commitment, 1002))
  })
})

describe('a server that starts again', () => {
  /** By slot: how a seam lies between slots, their order among each other is another one. */
  function bySlot(texts: readonly string[]): Map<string, string[]> {
    const slots = new Map<string, string[]>()
    for (const text of texts) {
      const slot = text.slice(0, text.indexOf(' '))
      slots.set(slot, [...(slots.get(slot) ?? []), text])
    }
    return slots
  }

  it('continues what it published before, without a gap or a duplicate', async () => {
    const updates = chainOf(90)
    const expected = rememberAll(updates)
    let [low, high] = [1000, 1030]
    let server = await serve()
    server.sink.opened(null)
    // Three runs; each ends in the middle of a slot, and of what waits to be written.
    for (let run = 1; ; run++) {
      const begin = updates.findIndex(({ slot }) => slot === low)
      const end = updates.findIndex(({ slot, kind }) => slot === high && kind === 'transaction')
      const part = updates.slice(begin, end + 3).filter(({ slot }) => slot >= low)
      await server.feed(part, run)
      if (run === 3) break
      server = await serve()
      low = server.log.resumeSlot!
      high += 27
      expect(low).toBeGreaterThan(1010 + (run - 1) * 27)
      server.sink.opened(low)
    }
    const { log } = server
    expect(log.oldestSlot).toBe(1000)
    for (const commitment of commitments) {
      const replayed = bySlot(await read(log.replay(from(1005, commitment))!))
      const all = bySlot(expected(commitment, 1005))
      for (const [slot, texts] of replayed)
        if (Number(slot) < 1070) expect(texts, slot).toEqual(all.get(slot))
      expect(replayed.size).toBeGreaterThan(60)
    }
  })

  it.each([
    ['no node replays from where it ended', 1060, 0],
    ['the node shows another block there', null, 99],
  ])('begins anew where %s', async (_, start, seed) => {
    const first = await serve()
    first.sink.opened(null)
    await first.feed(chainOf(40))
    const { log, sink, feed } = await serve()
    const resumeSlot = log.resumeSlot!
    sink.opened(start ?? resumeSlot)
    const firstSlot = start ?? resumeSlot
    await feed(chainOf(12, { firstSlot, seed: seed || 1 }))
    expect(log.oldestSlot).toBeGreaterThanOrEqual(firstSlot)
    expect(log.replay(from(1005, Commitment.processed))).toBeNull()
    expect(log.counts().resets).toBe(1)
  })
})

describe('the bounds', () => {
  it('remove the oldest files, and end a replay that was in them', async () => {
    const bounds = { ...hour, bytesMax: 3e6 }
    const updates = chainOf(150, { dataBytes: 16_000, accounts: 20 })
    const { log, sink, feed } = await serve(bounds)
    sink.opened(null)
    await feed(
      updates.slice(
        0,
        updates.findIndex(({ slot }) => slot === 1008),
      ),
    )
    const replay = log.replay(from(1001, Commitment.processed))!
    await read(replay, 10)
    await feed(updates.slice(updates.findIndex(({ slot }) => slot === 1008)))
    const bytes = readdirSync(folder).reduce(
      (sum, name) => sum + statSync(join(folder, name)).size,
      0,
    )
    expect(bytes).toBeLessThan(3e6 + 1.5 * 1024 * 1024)
    expect(log.counts().bytes).toBe(bytes)
    expect(log.oldestSlot).toBeGreaterThan(1050)
    await expect(read(replay)).rejects.toThrow('lost')
    const oldest = log.oldestSlot!
    const kept = await read(log.replay(from(oldest, Commitment.confirmed))!)
    expect(kept).toEqual(rememberAll(updates)(Commitment.confirmed, oldest))
  })

  it('of what waits for a slow disk: the log begins anew, the hub never waits', async () => {
    const { log, sink, thread } = await serve()
    sink.opened(null)
    const slots = 40
    const data = Buffer.alloc(20 * 1024 * 1024)
    const [key] = new SyntheticSolana().keys
    let fed = 0
    for (let slot = 2000; fed < slots && log.counts().resets === 0; slot++, fed++) {
      const account = new SyntheticSolana().account(key!, null)
      const update = accountUpdate({ slot, createdAtMs: 0 }, { ...account, data })
      sink.batch(batchFrom([messageOf(update)]))
    }
    expect(fed).toBeLessThan(slots)
    expect(waitingBytesMax).toBe(256 * 1024 * 1024)
    thread.run()
    expect(log.counts()).toMatchObject({ isUp: true, resets: 1 })
  })
})

describe('a disk that fails', () => {
  it('leaves what is in memory, and says so', async () => {
    const updates = chainOf(30)
    const { log, sink, thread, feed } = await serve()
    sink.opened(null)
    const middle = updates.findIndex(({ slot }) => slot === 1020)
    await feed(updates.slice(0, middle))
    thread.fail = 'ENOSPC: no space left on device, write'
    await feed(updates.slice(middle))
    expect(log.counts()).toMatchObject({ isUp: false, bytes: 0 })
    expect(log.oldestSlot).toBe(1026)
    const expected = rememberAll(updates)(Commitment.processed, 1027)
    expect(await read(log.replay(from(1027, Commitment.processed))!)).toEqual(expected)
  })

  it.each([
    ['removed', () => rmSync(streams(), { recursive: true })],
    ['moved away', () => renameSync(streams(), join(parent, 'away'))],
    ['replaced by a file', () => replaceByFile(streams())],
  ])('is noticed when its folder is %s, said once, and begins anew', async (_, go) => {
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    const updates = chainOf(40)
    const { log, sink, thread, errors, feed } = await serve()
    sink.opened(null)
    const at = (slot: number) => updates.findIndex((update) => update.slot === slot)
    await feed(updates.slice(0, at(1010)))
    expect(log.counts()).toMatchObject({ isUp: true, resets: 0 })
    go()
    await feed(updates.slice(at(1010), at(1013)))
    const down = { isUp: false, bytes: 0, resets: 1 }
    expect(log.counts()).toMatchObject(down)
    expect(log.oldestSlot).toBe(log.hub.oldestSlot)
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
    expect(log.counts()).toMatchObject({ isUp: true, resets: 1 })
    expect(errors).toEqual(['stream log is down: replay is from memory only'])
    await feed(updates.slice(at(1013)))
    const oldest = log.oldestSlot!
    expect(oldest).toBeLessThan(1020)
    const replayed = await read(log.replay(from(oldest + 1, Commitment.processed))!)
    expect(replayed).toEqual(rememberAll(updates)(Commitment.processed, oldest + 1))
  })
})

const streams = () => join(parent, 'streams')

function replaceByFile(path: string): void {
  rmSync(path, { recursive: true })
  writeFileSync(path, '')
}
