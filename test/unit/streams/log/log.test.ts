import { unpack } from 'msgpackr'
import { describe, expect, test } from 'vitest'
import type { StoredFrame } from '../../../../src/streams/log/encoded.ts'
import { EventLog, type EventLogOptions, seqBlock } from '../../../../src/streams/log/log.ts'

const clock = { nowMs: () => 0, monotonicMs: () => 12.5 }

function registry(start = 0): (count: number) => number {
  let next = start
  return (count) => {
    const first = next
    next += count
    return first
  }
}

function open(options: Partial<EventLogOptions> = {}): EventLog {
  return new EventLog({ reserve: registry(), clock, ...options })
}

const bytes = (value: unknown): Buffer => Buffer.from(JSON.stringify(value))

describe('EventLog', () => {
  test('writes the envelope once, seq first, and returns the payload without it', () => {
    const log = open()
    const seq = log.append('ContentionData', bytes({ block_number: 7 }))
    const frame = log.at(seq)
    expect(frame?.json.toString()).toBe(`{"seq":${seq},"ContentionData":{"block_number":7}}`)
    expect(frame?.payload.toString()).toBe('{"block_number":7}')
    expect(frame?.sinceMs).toBe(12.5)
  })

  test('numbers frames consecutively, also across the end of a reserved block', () => {
    const log = open({ framesMax: 10 })
    const first = log.append('TPS', bytes(1))
    let last = first
    for (let i = 0; i < seqBlock + 5; i++) {
      const seq = log.append('TPS', bytes(i))
      if (seq !== last + 1) throw new Error(`${seq} follows ${last}`)
      last = seq
    }
    expect(log.newestSeq).toBe(last)
    expect(log.oldestSeq).toBe(last - 9)
  })

  test('outlives a registry that gives no numbers, and never uses one that was not given', () => {
    let nowMs = 0
    let isFull = false
    const given = registry()
    const reserve = (count: number) => (isFull ? null : given(count))
    const log = open({
      reserve,
      framesMax: 10,
      clock: { nowMs: () => 0, monotonicMs: () => nowMs },
    })
    const first = log.append('TPS', bytes(0))
    isFull = true
    let last = first
    for (let seq = first; seq !== 0; seq = log.append('TPS', bytes(0))) last = seq
    // What was reserved at the start is used to its end, and nothing beyond.
    expect(last).toBe(seqBlock - 1)
    expect([log.newestSeq, log.append('Gap', bytes(0))]).toEqual([last, 0])
    isFull = false
    nowMs += 1000
    expect(log.append('TPS', bytes(0))).toBe(last + 1)
  })

  test('does not start without numbers', () => {
    expect(() => open({ reserve: () => null })).toThrow('no event numbers')
  })

  test('reports 0 as oldest and newest while it is empty', () => {
    const log = open()
    expect([log.oldestSeq, log.newestSeq, log.frames, log.bytes]).toEqual([0, 0, 0, 0])
    expect(log.canResume(0)).toBe(false)
    expect([...log.after(0)]).toEqual([])
    expect(log.at(0)).toBeNull()
    expect(log.latest('TPS')).toBeNull()
  })

  test('resumes from cursors oldest - 1 to newest and from no other', () => {
    const log = open({ framesMax: 4 })
    for (let i = 0; i < 9; i++) log.append('TPS', bytes(i))
    const { oldestSeq: oldest, newestSeq: newest } = log
    expect(newest - oldest).toBe(3)
    expect([oldest - 2, oldest - 1, newest, newest + 1].map((n) => log.canResume(n))).toEqual([
      false,
      true,
      true,
      false,
    ])
    expect([...log.after(oldest - 1)].map((frame) => frame.seq)).toHaveLength(4)
    expect([...log.after(newest)]).toEqual([])
  })

  test('never accepts a cursor of an earlier run in a later one', () => {
    const reserve = registry()
    const before = open({ reserve, framesMax: 3 })
    let cursor = 0
    // The whole block is used up, so the next run begins right after it.
    for (let i = 0; i < seqBlock - 1; i++) cursor = before.append('TPS', bytes(0))
    const after = open({ reserve })
    const first = after.append('TPS', bytes(0))
    expect(first).toBeGreaterThan(cursor + 1)
    expect(after.canResume(cursor)).toBe(false)
  })

  test('evicts the oldest frames when the bytes are over the limit, never the newest', () => {
    const log = open({ bytesMax: 20_000 })
    for (let i = 0; i < 100; i++) log.append('ContentionData', bytes('x'.repeat(1000)))
    expect(log.bytes).toBeLessThanOrEqual(20_000)
    expect(log.frames).toBeGreaterThan(5)
    const big = log.append('Lifecycle', bytes('y'.repeat(500_000)))
    expect(log.frames).toBe(1)
    expect(log.at(big)?.payload.length).toBe(500_002)
    expect(log.latest('ContentionData')?.payload.length).toBe(1002)
  })

  test('keeps the bytes of every stored frame intact over slabs of memory', () => {
    const log = open({ framesMax: 500 })
    for (let i = 0; i < 3000; i++)
      log.append('TopAccesses', bytes({ i, pad: 'p'.repeat(i % 2500) }))
    let seen = 0
    for (const frame of log.after(log.oldestSeq - 1)) {
      const { i, pad } = JSON.parse(frame.payload.toString())
      expect(pad.length).toBe(i % 2500)
      seen++
    }
    expect(seen).toBe(500)
  })

  test('notifies listeners in order until they unsubscribe', () => {
    const log = open()
    const seen: StoredFrame[] = []
    const end = log.listen((frame) => seen.push(frame))
    log.append('TPS', bytes(1))
    log.append('Gap', bytes({ from: 1, to: 2 }))
    end()
    log.append('TPS', bytes(2))
    expect(seen.map((frame) => frame.kind)).toEqual(['TPS', 'Gap'])
    expect(log.appended('TPS')).toBe(2)
  })

  test('encodes msgpack once, counts its bytes and subtracts them on eviction', () => {
    const log = open({ framesMax: 2 })
    const seq = log.append('TPS', bytes(455))
    const frame = log.at(seq)!
    const before = log.bytes
    const packed = log.encoded(frame, 'msgpack')
    expect(log.encoded(frame, 'msgpack')).toBe(packed)
    expect(log.bytes).toBe(before + packed.length)
    expect(unpack(packed)).toEqual({ seq, TPS: 455 })
    log.append('TPS', bytes(456))
    log.append('TPS', bytes(457))
    log.append('TPS', bytes(458))
    expect(log.bytes).toBe(2 * before)
    expect(unpack(log.encoded(frame, 'msgpack'))).toEqual({ seq, TPS: 455 })
  })
})
