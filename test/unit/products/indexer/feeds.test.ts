import { describe, expect, test } from 'vitest'
import { factsMax } from '../../../../src/indexer/config.ts'
import { FactLog } from '../../../../src/products/indexer/feeds.ts'
import { EventLog } from '../../../../src/streams/log/log.ts'
import { HandClock, handOutSeqs } from '../../../testkit/fake-execution.ts'
import { FeedStream } from '../../../testkit/feed-stream.ts'
import { turn } from '../../../testkit/stream-stage.ts'

const clock = new HandClock()
const newLog = (framesMax: number) =>
  new EventLog({ reserve: handOutSeqs(1_000), clock, framesMax })

function append(log: EventLog, count: number): void {
  for (let left = count; left > 0; left--) log.append('TPS', Buffer.from('400'))
}

describe('a follower of a log', () => {
  test('sends every frame once, from the oldest on, with the facts that it does not contain', async () => {
    const log = newLog(100)
    const block = { blockHash: '0xa', ethHash: '0xe', txCount: 3, gasUsed: 2 ** 40, startedNs: 5n }
    const facts = { blockNumber: 7, atNs: 1_700_000_000_123_456_789n, block }
    log.append('ContentionData', Buffer.from('{}'), clock.monotonicMs(), facts)
    append(log, 2)
    const stream = new FeedStream(log)
    expect(stream.starts).toEqual([{ run: 'start', after: 1_000, lost: 0 }])
    expect(stream.items[0]).toMatchObject({
      seq: 1_001,
      content: { seq: 1_001, kind: 'ContentionData', payload: Buffer.from('{}'), facts },
    })
    expect(stream.items[0]!.atMs).toBe(clock.nowMs())
    append(log, 2)
    await turn()
    expect(stream.seqs).toEqual([1_001, 1_002, 1_003, 1_004, 1_005])
  })

  test('waits for a slow reader, and sends the next frame then, not the newest', async () => {
    const log = newLog(100)
    const stream = new FeedStream(log)
    stream.unsentBytes = 256 * 1024
    append(log, 5)
    await turn()
    expect(stream.items).toEqual([])
    stream.unsentBytes = 0
    stream.follower.drained()
    expect(stream.seqs).toEqual([1_001, 1_002, 1_003, 1_004, 1_005])
    expect(stream.lost).toBe(0)
  })

  test('counts frames that the log evicted before its reader took them', async () => {
    const log = newLog(10)
    append(log, 1)
    const stream = new FeedStream(log)
    stream.unsentBytes = 256 * 1024
    append(log, 31)
    await turn()
    stream.unsentBytes = 0
    stream.follower.drained()
    // Of 32 frames one was read before, ten were still in the log.
    expect(stream.items).toHaveLength(11)
    expect(stream.lost).toBe(21)
    expect(stream.starts.at(-1)).toEqual({ run: 'start', after: 1_022, lost: 21 })
  })

  test('continues after a cursor of its run, and counts what is gone since', () => {
    const log = newLog(10)
    append(log, 4)
    expect(new FeedStream(log, { after: 1_002, run: 'start' }).seqs).toEqual([1_003, 1_004])
    append(log, 10)
    const late = new FeedStream(log, { after: 1_002, run: 'start' })
    expect(late.lost).toBe(2)
    expect(late.seqs[0]).toBe(1_005)
  })

  test('begins with the oldest frame for a cursor of another run, which says nothing of this one', () => {
    const log = newLog(10)
    append(log, 4)
    for (const request of [
      { after: 1_002, run: 'earlier' },
      { after: 9_999, run: 'start' },
    ]) {
      const stream = new FeedStream(log, request)
      expect(stream.seqs).toHaveLength(4)
      expect(stream.lost).toBe(0)
    }
    // A cursor of the cluster's numbering is one of whatever run.
    expect(new FeedStream(log, { after: 1_002, run: '' }).seqs).toEqual([1_003, 1_004])
  })

  test('waits for what follows a cursor that another gateway of its log has reached', async () => {
    const log = new EventLog({ reserve: () => null, clock, isShared: true })
    const accept = (...seqs: number[]) => {
      const frame = { kind: 'TPS' as const, payload: Buffer.from('400'), sinceMs: 0, facts: null }
      for (const seq of seqs) log.accept(seq, frame)
    }
    log.restart('R', 3)
    accept(4, 5)
    const stream = new FeedStream(log, { after: 7, run: 'R' })
    const marked = new FeedStream(log, { after: 7, run: '' })
    const other = new FeedStream(log, { after: 7, run: 'Q' })
    await turn()
    accept(6, 7, 8)
    await turn()
    expect([stream.seqs, marked.seqs, other.seqs]).toEqual([[8], [8], [4, 5, 6, 7, 8]])
    expect(stream.starts).toEqual([{ run: 'R', after: 7, lost: 0 }])
    // Nothing is sent twice by a gateway that cannot read the log: its reader goes to the next one.
    log.pull = () => Promise.reject(new Error('away'))
    const away = new FeedStream(log, { after: 9, run: 'R' })
    await turn()
    expect([away.starts, away.ends]).toEqual([[], [14]])
  })

  test('sends nothing more after its end', async () => {
    const log = newLog(10)
    const stream = new FeedStream(log)
    append(log, 1)
    stream.follower.closed()
    append(log, 1)
    await turn()
    expect(stream.items).toEqual([])
  })
})

test('facts are numbered, and the oldest go first', () => {
  const facts = new FactLog(clock)
  const stream = new FeedStream(facts)
  const usage = { subscription: 's', atMs: 1, elapsedMs: 2, rows: 3, bytes: 4, code: 0 }
  for (let query = 1; query <= factsMax + 5; query++) facts.push({ ...usage, queryId: `q${query}` })
  expect([facts.oldestSeq, facts.position]).toEqual([6, factsMax + 5])
  expect(facts.at(5)).toBeNull()
  stream.follower.drained()
  expect(stream.lost).toBe(5)
  expect(stream.items[0]!.content).toEqual({ ...usage, queryId: 'q6' })
})
