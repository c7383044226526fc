// A gateway on a shared event log in memory: invalid rows, kinds of a later version, new runs.

import { afterEach, describe, expect, test } from 'vitest'
import { type Lease, type LogFrame, runJump } from '../../../../src/base/shared-log.ts'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { grpcCode } from '../../../../src/base/transport/grpc-stream.ts'
import { BlockRows } from '../../../../src/products/metrics/block-rows.ts'
import { EventLog } from '../../../../src/streams/log/log.ts'
import { blocksKept, SharedEvents } from '../../../../src/streams/log/shared-events.ts'
import { contentionOf, HandClock } from '../../../testkit/fake-execution.ts'
import { FeedStream } from '../../../testkit/feed-stream.ts'
import { StreamStage, turn } from '../../../testkit/stream-stage.ts'
import { until } from '../../../testkit/until.ts'

/** The log of PostgreSQL, as rows in memory. */
class MemoryLog {
  run = 'one'
  next = 1
  rows: LogFrame[] = []
  reads = 0

  put(...texts: readonly string[]): void {
    for (const text of texts) this.rows.push({ seq: this.next++, frame: Buffer.from(text) })
  }

  head = async () => ({ run: this.run, next: this.next })
  start = async (frames: number) => {
    const numbers = [...this.rows.map(({ seq }) => seq), this.next]
    const near = numbers.filter((seq) => seq >= this.next - frames)
    const first = near.findLast((seq, at) => near[at - 1] !== seq - 1)!
    return { run: this.run, next: this.next, first }
  }
  after = async (seq: number, max: number) => {
    this.reads++
    return this.rows.filter((row) => row.seq > seq).slice(0, max)
  }
  append = async (_lease: Lease, _first: number, _frames: readonly Uint8Array[]) => false
  renumber = async (_run: string, floor: number) => {
    this.run = 'two'
    this.next = floor + runJump
  }
  onNews = (_notify: () => void) => () => {}
}

const followers: SharedEvents[] = []
afterEach(async () => {
  for (const follower of followers.splice(0)) await follower.stop()
})

const nobody = { hold: async () => [] as Lease[], giveBack: async () => {} }

async function follow(
  shared: MemoryLog,
  events: EventLog,
  clock = new HandClock(),
  leases = nobody,
) {
  const lines: string[] = []
  const log = { ...silentLog, error: (text: string) => void lines.push(text) }
  const follower = new SharedEvents(events, { shared, leases, clock, log })
  followers.push(follower)
  await follower.ready(1_000)
  return { follower, lines }
}

const newLog = () => new EventLog({ reserve: () => null, clock: new HandClock(), isShared: true })
const tps = (value: number) => `{"kind":"TPS","facts":{"block":${value},"at":"1"}}\n${value}`
const shown = (events: EventLog) =>
  [...events.after(0)].map(({ seq, kind, payload }) => `${seq} ${kind} ${payload}`)

describe('a row that is no frame', () => {
  test.each([
    ['facts', '{"kind":"TPS","facts":{"block":1}}\n400'],
    ['json', '{"kind":"TPS"\n400'],
    ['payload', '{"kind":"TPS"}\nfour hundred'],
    ['nothing', ''],
  ])('has its number, is a Gap, and the frames behind it come (%s)', async (_, bad) => {
    const shared = new MemoryLog()
    shared.put(tps(1), bad, tps(3))
    const events = newLog()
    const { follower, lines } = await follow(shared, events)
    expect(shown(events)).toEqual(['1 TPS 1', '2 Gap {"from":0,"to":0}', '3 TPS 3'])
    shared.put(bad, tps(5))
    await events.pull()
    expect(shown(events).at(-1)).toBe('5 TPS 5')
    expect(follower.invalidRows).toBe(2)
    // At most one line a second.
    expect(lines).toEqual(['a row of the shared event log is no frame; a Gap is sent'])
    expect(follower.ageMs()).toBe(0)
  })
})

test('an append whose answer was lost and that commits late is not repeated', async () => {
  const shared = new MemoryLog()
  shared.put(tps(1))
  const late: Uint8Array[] = []
  const text = (frame: Uint8Array) => Buffer.from(frame).toString()
  shared.append = async (_lease, _first, frames) => {
    late.push(...frames)
    // Committed by a session that nobody hears any more, after the log was read again.
    const { after } = shared
    shared.after = async (seq, max) => {
      const rows = await after(seq, max)
      shared.put(...late.splice(0).map(text))
      return rows
    }
    shared.append = appended
    throw new Error('connection is lost')
  }
  const appended = async (_lease: Lease, first: number, frames: readonly Uint8Array[]) => {
    if (first !== shared.next) return false
    shared.put(...frames.map(text))
    return true
  }
  const held = { ...nobody, hold: async () => [{ name: 'events', term: 1, untilMs: 1e9 }] }
  const events = newLog()
  const { follower } = await follow(shared, events, new HandClock(), held)
  const put = (block: number) =>
    follower.append('TPS', Buffer.from(`${block}`), 0, {
      blockNumber: block,
      atNs: 1n,
      key: `${block}`,
    })
  put(2)
  await until(() => late.length > 0 || shared.next > 2, 'an append')
  put(3)
  await until(() => events.newestSeq >= 3, 'both frames')
  expect(shown(events)).toEqual(['1 TPS 1', '2 TPS 2', '3 TPS 3'])
})

describe('a Gap of the own source', () => {
  const gap = '{"from":7,"to":9,"at_ms":5}'
  const own = (shared: MemoryLog) => shared.rows.map(({ frame }) => String(frame).split('\n')[1])

  /** A gateway, what its source produces, and the log that its appends reach. */
  async function stage(leases: Lease[] = [{ name: 'events', term: 1, untilMs: 1e9 }]) {
    const shared = new MemoryLog()
    const commit = async (_lease: Lease, first: number, frames: readonly Uint8Array[]) => {
      if (first !== shared.next) return false
      shared.put(...frames.map((frame) => Buffer.from(frame).toString()))
      return true
    }
    shared.append = commit
    const held = { ...nobody, hold: async () => leases }
    const { follower } = await follow(shared, newLog(), new HandClock(), held)
    const put = (...frames: readonly (number | string)[]) => {
      for (const one of frames) {
        const facts = typeof one === 'string' ? null : { blockNumber: one, atNs: 1n, key: `${one}` }
        follower.append(facts === null ? 'Gap' : 'TPS', Buffer.from(`${one}`), 0, facts)
      }
    }
    return { shared, follower, commit, put }
  }

  test.each([
    ['was refused', [8, 9], (_: () => unknown) => {}],
    ['was refused, in an empty log', [], (_: () => unknown) => {}],
    ['is committed though its answer is lost', [8, 9], (commit: () => unknown) => commit()],
  ])('is appended once where it was noticed while an append %s', async (_, before, lose) => {
    const { shared, commit, put } = await stage()
    put(...before)
    await until(() => shared.rows.length === before.length, 'what was before')
    let failures = 0
    shared.append = async (...append) => {
      failures++
      shared.append = commit
      // Its source goes on meanwhile.
      lose(() => commit(...append))
      put(14)
      throw new Error('connection is lost')
    }
    put(10, gap)
    await until(() => own(shared).at(-1) === '14', 'the block after it')
    expect(failures).toBe(1)
    expect(own(shared)).toEqual([...before.map(String), '10', gap, '14'])
  })

  test.each([
    ['the log has what is missing from another source', [8, 9, 10, 11], [8, gap, 11, 12], ['12']],
    ['no source has what is missing', [8, 9], [8, gap, 12], [gap, '12']],
    ['this source joined later', [8], [gap, 12, gap, 16], ['9-11', '12', gap, '16']],
    ['nothing else came of it', [8], [7, gap], []],
  ])('is appended after a take-over as far as %s', async (_, others, frames, appended) => {
    const leases: Lease[] = []
    const { shared, follower, put } = await stage(leases)
    for (const block of others)
      shared.put(`{"kind":"TPS","facts":{"block":${block},"at":"1","key":"${block}"}}\n${block}`)
    put(...frames)
    // The one that appended is gone.
    leases.push({ name: 'events', term: 1, untilMs: 1e9 })
    await until(() => follower.isNumberer, 'the lease')
    await until(() => shared.rows.length >= others.length + appended.length, 'what is missing')
    await turn()
    const between = '{"from":0,"to":0,"from_block":9,"to_block":11}'
    const expected = appended.map((one) => (one === '9-11' ? between : one))
    expect(own(shared).slice(others.length)).toEqual(expected)
  })
})

test('what a gateway keeps to append later is so many blocks, also behind a Gap', async () => {
  const shared = new MemoryLog()
  const leases: Lease[] = []
  const { follower } = await follow(shared, newLog(), new HandClock(), {
    ...nobody,
    hold: async () => leases,
  })
  shared.append = async (_lease, first, frames) => {
    if (first !== shared.next) return false
    shared.put(...frames.map((frame) => Buffer.from(frame).toString()))
    return true
  }
  follower.append('Gap', Buffer.from('{"from":1,"to":2}'), 0, null)
  for (let block = 1; block <= blocksKept + 400; block++) {
    const facts = { blockNumber: block, atNs: 1n, key: `${block}` }
    follower.append('TPS', Buffer.from(`${block}`), 0, facts)
  }
  // The one that appended is gone.
  leases.push({ name: 'events', term: 1, untilMs: 1e9 })
  await until(() => shared.rows.length > blocksKept, 'what is kept')
  await turn()
  expect(shared.rows).toHaveLength(blocksKept + 1)
})

test('a start waits for one read, not for what is appended during it', async () => {
  const shared = new MemoryLog()
  shared.put(tps(1))
  let news = () => {}
  shared.onNews = (notify) => {
    news = notify
    return () => {}
  }
  const { after } = shared
  let reads = 0
  shared.after = async (seq, max) => {
    const rows = await after(seq, max)
    // Another gateway appends as fast as this one reads, up to a bound.
    if (reads++ < 1_000) {
      shared.put(tps(reads))
      news()
    }
    return rows
  }
  await follow(shared, newLog())
  expect(reads).toBeLessThan(10)
})

describe('a log with more frames than a start waits for', () => {
  const newest = 7_000
  const older = 450
  /** Of which the older ones are read at once: other reads are longer. */
  const turnFrames = 200
  const all = Array.from({ length: newest + older }, (_, index) => index + 1)

  /** Whose older frames are given after `open`, or an error as long as it has one. */
  function heldLog() {
    const shared = new MemoryLog()
    shared.put(...all.map(tps))
    let open = () => {}
    const opened = new Promise<void>((resolve) => {
      open = resolve
    })
    const { after } = shared
    const held = { shared, open: () => open(), problem: null as Error | null }
    shared.after = async (seq, max) => {
      const isOlder = max === turnFrames
      if (isOlder && held.problem !== null) throw held.problem
      if (isOlder) await opened
      return after(seq, max)
    }
    return held
  }

  const filled = (events: EventLog) => until(() => events.filling === null, 'the older frames')

  test('has the newest at once and the others later, and nobody misses one', async () => {
    const { shared, open } = heldLog()
    const events = newLog()
    await follow(shared, events)
    expect([events.oldestSeq, events.newestSeq]).toEqual([older + 1, newest + older])
    expect([events.mayReach(5, 'one'), events.mayReach(5, 'other')]).toEqual([true, false])
    expect(events.mayReach(older, 'one')).toBe(false)
    const told: number[] = []
    events.listen(({ seq }) => told.push(seq))
    const index = new FeedStream(events, { after: 3, run: 'one' })
    const gone = new FeedStream(events, { after: 3, run: 'one' })
    gone.follower.closed()
    shared.put(tps(all.length + 1))
    await events.pull()
    expect(index.items).toEqual([])
    open()
    await filled(events)
    expect([...events.after(0)].map(({ payload }) => Number(payload))).toEqual([
      ...all,
      all.length + 1,
    ])
    expect(told).toEqual([all.length + 1])
    expect([events.mayReach(5, 'one'), events.canResume(0)]).toEqual([false, true])
    await until(() => index.seqs.length === all.length - 2, 'the items after its place')
    expect([index.lost, index.seqs[0], gone.seqs.length]).toEqual([0, 4, 0])
  })

  test.each([
    ['fails', new Error('connection is lost')],
    ['is late', null],
  ])('lets nobody wait while a read of the older ones %s', async (_, problem) => {
    const held = heldLog()
    held.problem = problem
    const events = newLog()
    await follow(held.shared, events)
    const history = new BlockRows({ tps: () => {}, block: () => {} })
    history.follow(events)
    for (const wait of [events.filling, history.filling]) await wait
    // Who comes now waits as long again, and is not taken for one whose frames are gone.
    expect([events.mayReach(5, 'one'), history.filling]).toEqual([true, expect.any(Promise)])
    const index = new FeedStream(events, { after: 3, run: 'one' })
    await until(() => index.ends.length > 0, 'the end of its stream')
    expect([index.ends, index.starts]).toEqual([[grpcCode.unavailable], []])
    held.problem = null
    held.open()
    await filled(events)
    expect([...events.after(0)].map(({ payload }) => Number(payload))).toEqual(all)
    await until(() => history.filling === null, 'the older blocks')
  })

  test('is read to the first frame of a run that begins meanwhile', async () => {
    const { shared, open } = heldLog()
    const events = newLog()
    await follow(shared, events)
    await shared.renumber('one', all.length + 1)
    const first = shared.next
    shared.put(...all.map(tps))
    await events.pull()
    expect([events.run, events.oldestSeq]).toEqual(['two', first + older])
    expect(events.mayReach(first, 'two')).toBe(true)
    open()
    await filled(events)
    expect([events.oldestSeq, events.frames]).toEqual([first, all.length])
  })

  test('is read as far as there is room', async () => {
    const { shared, open } = heldLog()
    const framesMax = newest + 100
    const clock = new HandClock()
    const events = new EventLog({ reserve: () => null, clock, isShared: true, framesMax })
    await follow(shared, events)
    open()
    await filled(events)
    expect([events.oldestSeq, events.frames]).toEqual([older - 99, framesMax])
    shared.put(tps(1))
    await events.pull()
    expect([events.oldestSeq, events.frames]).toEqual([older - 98, framesMax])
  })

  test('is left alone where a new run begins', async () => {
    const { shared, open } = heldLog()
    const events = newLog()
    await follow(shared, events)
    shared.rows.splice(-5)
    shared.next -= 5
    await events.pull()
    expect([events.run, events.frames]).toEqual(['two', 0])
    open()
    await filled(events)
    shared.put(tps(7))
    await events.pull()
    expect(shown(events)).toEqual([`${shared.next - 1} TPS 7`])
  })
})

describe("a frame of a later version's kind", () => {
  test('is sent to nobody, and cursors on both sides of it are exact', async () => {
    const shared = new MemoryLog()
    shared.put(tps(1), '{"kind":"Reorg"}\n{"depth":2}', tps(3))
    const stage = new StreamStage({ isShared: true })
    const { follower } = await follow(shared, stage.log)
    const early = stage.connect({ resumeFrom: 1 })
    const late = stage.connect({ resumeFrom: 2, encoding: 'msgpack' })
    shared.put('{"kind":"Reorg"}\n{"depth":2}', tps(5))
    await stage.log.pull()
    await turn()
    expect(early.seqs).toEqual([1, 3, 5])
    expect(late.seqs).toEqual([2, 3, 5])
    expect(follower.invalidRows).toBe(0)
    stage.stop()
  })
})

describe('a new run', () => {
  const block = (number: number) => [
    tps(number),
    `{"kind":"ContentionData","facts":{"block":${number},"at":"1","key":"b${number}"}}\n` +
      JSON.stringify(contentionOf(number)),
  ]
  const numbers = (history: BlockRows) =>
    [...history.newest(100)].map((row) => JSON.parse(String(row)).block_number)

  async function openStage() {
    const shared = new MemoryLog()
    for (const number of [1, 2, 3]) shared.put(...block(number))
    const stage = new StreamStage({ isShared: true })
    const measured: number[] = []
    const history = new BlockRows({
      tps: () => {},
      block: (scalars) =>
        measured.push((scalars as unknown as { block_number: number }).block_number),
    })
    stage.log.listen((frame) => history.update(frame))
    stage.log.onRestart(() => history.restarted())
    const index = new FeedStream(stage.log)
    await follow(shared, stage.log)
    await turn()
    // As a standby that was promoted without block 3.
    shared.rows.splice(4)
    shared.next = 5
    return { shared, stage, history, measured, index }
  }

  test('shows no block twice, cuts clients once and loses nothing of the index', async () => {
    const { shared, stage, history, measured, index } = await openStage()
    let restarts = 0
    stage.log.onRestart(() => restarts++)
    const before = stage.connect()
    await stage.log.pull()
    expect(stage.log.run).toBe('two')
    expect(before.closed).toBe(1001)
    const between = stage.connect()
    // The lost block is numbered again, and the next one follows.
    shared.put(...block(3), ...block(4))
    await stage.log.pull()
    await turn()
    expect(restarts).toBe(1)
    expect(between.closed).toBeNull()
    expect(stage.log.oldestSeq).toBe(7 + runJump)
    expect(numbers(history)).toEqual([1, 2, 3, 4])
    expect(measured).toEqual([1, 2, 3, 4])
    expect(index.lost).toBe(0)
    expect(index.starts.at(-1)!.run).toBe('two')
    expect(index.seqs.at(-1)).toBe(stage.log.newestSeq)
    stage.stop()
  })

  test('that has frames already begins with them, also at a gateway that starts', async () => {
    const { shared, stage, history } = await openStage()
    await shared.renumber('one', 7)
    shared.put(...block(3), ...block(4))
    await stage.log.pull()
    expect(stage.log.oldestSeq).toBe(7 + runJump)
    expect(numbers(history)).toEqual([1, 2, 3, 4])
    const fresh = newLog()
    let restarts = 0
    fresh.onRestart(() => restarts++)
    await follow(shared, fresh)
    expect(restarts).toBe(1)
    expect(shown(fresh)).toHaveLength(4)
    stage.stop()
  })
})
