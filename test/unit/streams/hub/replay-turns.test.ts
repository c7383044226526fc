// Turns of replays beside live streams: their length, the rests between them, and their order.
import { beforeEach, describe, expect, it } from 'vitest'
import {
  nextRestShare,
  ReplayPace,
  type ReplayStep,
  SharedTurns,
} from '../../../../src/streams/hub/replay-turns.ts'

let nowMs: number
let next: { readonly run: () => void; readonly atMs: number } | null
let turns: SharedTurns

beforeEach(() => {
  nowMs = 0
  next = null
  turns = new SharedTurns({ monotonicMs: () => nowMs }, (run, ms) => {
    // As timers do: shorter times are none.
    next = { run, atMs: nowMs + Math.floor(ms) }
  })
})

/** Wants all of the thread: asks for the next turn whenever one is over. */
class Reader {
  servedMs = 0

  constructor(lookMs = 0.0625) {
    const step: ReplayStep = (isOver) => {
      do {
        nowMs += lookMs
        this.servedMs += lookMs
      } while (!isOver())
      turns.ask(step)
    }
    turns.ask(step)
  }
}

/** Wants a little of each turn. */
class SmallReader {
  servedMs = 0

  constructor(stepMs: number) {
    const step: ReplayStep = () => {
      nowMs += stepMs
      this.servedMs += stepMs
      turns.ask(step)
    }
    turns.ask(step)
  }
}

function runUntil(endMs: number): void {
  while (next !== null && next.atMs < endMs) {
    const { run, atMs } = next
    next = null
    nowMs = Math.max(nowMs, atMs)
    run()
  }
}

describe('the turns of replays', () => {
  it('end after a quarter of a millisecond, and leave the thread for three', () => {
    const reader = new Reader()
    const begins: number[] = []
    while (nowMs < 8) {
      begins.push(next!.atMs)
      runUntil(next!.atMs + 0.1)
    }
    // Two at the start, as a rest is no shorter than a timer.
    expect(begins).toEqual([0, 0.25, 1.5, 2.75, 4, 4.25, 5.5, 6.75, 8])
    expect(reader.servedMs).toBe(begins.length / 4)
  })

  it('begin at once for a reader that comes after the rest', () => {
    turns.ask(() => {
      nowMs += 1
    })
    runUntil(1)
    nowMs = 3
    turns.ask(() => {})
    expect(next!.atMs).toBe(4)
    runUntil(5)
    nowMs = 100
    turns.ask(() => {})
    expect(next!.atMs).toBe(100)
  })

  it('add up the rests that are shorter than a timer', () => {
    const reader = new SmallReader(0.125)
    runUntil(1_000)
    expect(reader.servedMs / nowMs).toBeCloseTo(0.25, 2)
  })

  it('serve readers that need little in the turns of others', () => {
    const [a, b, small] = [new Reader(), new Reader(), new SmallReader(0.25)]
    runUntil(600)
    expect((a.servedMs + b.servedMs + small.servedMs) / nowMs).toBeCloseTo(0.5, 1)
    expect(a.servedMs / b.servedMs).toBeCloseTo(1, 0)
    expect(small.servedMs).toBeGreaterThan(0.05 * nowMs)
  })

  it.each([
    [1, 0.25],
    [2, 0.4],
    [9, 0.75],
    [60, 60 / 63],
  ])('leave %i readers %d of the thread, in turns as long as that of one', (count, share) => {
    const readers = Array.from({ length: count }, () => new Reader())
    let longestMs = 0
    while (nowMs < 1_000) {
      const beginMs = Math.max(nowMs, next!.atMs)
      const { run } = next!
      nowMs = beginMs
      run()
      longestMs = Math.max(longestMs, nowMs - beginMs)
    }
    const each = readers.map(({ servedMs }) => servedMs)
    expect(each.reduce((sum, ms) => sum + ms, 0) / nowMs).toBeCloseTo(share, 1)
    expect(longestMs).toBe(0.25)
    expect(Math.max(...each) - Math.min(...each)).toBeLessThanOrEqual(1)
  })

  it('rest for 20 ms after a turn that was stopped for longer', () => {
    new Reader(5_000)
    runUntil(1)
    expect(nowMs).toBe(5_000)
    expect(next!.atMs).toBe(5_020)
  })
})

it('goes on with the others when a replay fails', () => {
  let served = 0
  turns.ask(() => {
    throw new Error('a fault')
  })
  turns.ask(() => void served++)
  expect(() => next!.run()).toThrow('a fault')
  next!.run()
  expect(served).toBe(1)
})

describe('the rests of a reader', () => {
  it.each([
    ['of one that is as fast as wanted', 8, 15, 8],
    ['of one that is twice as fast', 8, 30, 16],
    ['of one that is half as fast', 8, 7.5, 4],
    ['at most', 8, 1_000, 32],
    ['at least: whatever it needs, others have three quarters', 8, 0, 3],
  ])('%s', (_, before, pace, after) => {
    expect(nextRestShare(before, pace)).toBe(after)
  })

  const slotMs = 400
  let newestSlot: number

  /** Replays so many slots for each millisecond of its turns. */
  class PacedReader {
    servedMs = 0
    slot = 0

    constructor(slotsPerMs: number) {
      const pace = new ReplayPace({
        slotTime: { ms: slotMs },
        get newestSlot() {
          return newestSlot
        },
      })
      const step: ReplayStep = (isOver) => {
        do {
          nowMs += 0.0625
          this.servedMs += 0.0625
          this.slot += slotsPerMs * 0.0625
          pace.passed(Math.floor(this.slot))
        } while (!isOver())
        turns.ask(step, pace)
      }
      turns.ask(step, pace)
    }
  }

  function runChain(untilMs: number, liveSlotMs = slotMs): void {
    newestSlot = 1_000_000
    for (let atMs = 0; atMs <= untilMs; atMs += liveSlotMs) {
      runUntil(atMs)
      newestSlot++
    }
  }

  const pace = ({ slot }: PacedReader, liveSlotMs = slotMs) => (slot * liveSlotMs) / nowMs

  it('are long where it is fast all the same', () => {
    const reader = new PacedReader(10)
    runChain(60_000)
    expect(reader.servedMs / nowMs).toBeCloseTo(1 / 33, 2)
    expect(pace(reader)).toBeGreaterThan(100)
  })

  it('are as long as leaves it 15 times as fast as its chain', () => {
    // With a quarter of the thread it would be 50 times as fast.
    const reader = new PacedReader(0.5)
    runChain(60_000)
    expect(pace(reader)).toBeGreaterThan(12)
    expect(pace(reader)).toBeLessThan(18)
  })

  it('are the shortest where it would not catch up otherwise', () => {
    const reader = new PacedReader(0.02)
    runChain(60_000)
    expect(reader.servedMs / nowMs).toBeCloseTo(0.25, 1)
    expect(pace(reader)).toBeGreaterThan(1.5)
  })

  it('are short after a tenth of a second already for one that is slow', () => {
    const reader = new PacedReader(0.02)
    runChain(1_000, 100)
    expect(reader.servedMs / nowMs).toBeGreaterThan(0.2)
  })

  it('follow the slots that come, where those are faster than their time says', () => {
    const reader = new PacedReader(0.5)
    runChain(60_000, 40)
    expect(reader.servedMs / nowMs).toBeCloseTo(0.25, 1)
    expect(pace(reader, 40)).toBeGreaterThan(4)
  })

  it('are those of the slowest that asks', () => {
    const [fast, slow] = [new PacedReader(10), new PacedReader(0.02)]
    runChain(60_000)
    expect((fast.servedMs + slow.servedMs) / nowMs).toBeCloseTo(0.4, 1)
    expect(slow.servedMs / nowMs).toBeGreaterThan(0.15)
  })
})
