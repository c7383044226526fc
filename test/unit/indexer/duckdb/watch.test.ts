// QueryWatch and BackOff on a fake clock.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { BackOff, QueryWatch, type Watched } from '../../../../src/indexer/duckdb/watch.ts'

let nowMs = 0
beforeEach(() => {
  nowMs = 0
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
})

function watched(change: Partial<Watched> = {}) {
  const calls: string[] = []
  const one: Watched = {
    rssBytesMax: 100,
    timeMsMax: 1000,
    rssBytes: () => 50,
    isReaderSlow: () => false,
    onTimeout: () => calls.push('late'),
    onKill: (reason) => calls.push(`kill ${reason}`),
    ...change,
  }
  return { one, calls }
}

function pass(watch: QueryWatch, ms: number): void {
  for (let passed = 0; passed < ms; passed += 20) {
    nowMs += 20
    watch.tick()
  }
}

describe('QueryWatch', () => {
  test('interrupts a query at its timeout and kills it after the grace period', () => {
    const watch = new QueryWatch(() => nowMs)
    const { one, calls } = watched()
    watch.add(one)
    pass(watch, 980)
    expect(calls).toEqual([])
    pass(watch, 40)
    expect(calls).toEqual(['late'])
    pass(watch, 500)
    expect(calls[1]).toBe('kill time')
    watch.remove(one)
    pass(watch, 1000)
    expect(calls.length).toBeLessThan(4)
  })

  test('kills a query at once above its memory limit', () => {
    const watch = new QueryWatch(() => nowMs)
    const { one, calls } = watched({ rssBytes: () => 101 })
    watch.add(one)
    pass(watch, 20)
    expect(calls).toEqual(['kill memory'])
  })

  test('does not count the time of a slow reader, up to a bound', () => {
    const watch = new QueryWatch(() => nowMs)
    const { one, calls } = watched({ isReaderSlow: () => true })
    watch.add(one)
    pass(watch, 59_900)
    expect(calls).toEqual([])
    pass(watch, 200)
    expect(calls).toEqual(['late'])
  })

  test('kills a query that was cancelled and does not end', () => {
    const watch = new QueryWatch(() => nowMs)
    const { one, calls } = watched()
    watch.add(one)
    watch.endRequested(one)
    pass(watch, 480)
    expect(calls).toEqual([])
    pass(watch, 40)
    expect(calls).toContain('kill time')
  })
})

describe('BackOff', () => {
  test('doubles with each kill, resets after a while, and is per subscription', () => {
    // Without jitter.
    vi.spyOn(Math, 'random').mockReturnValue(1)
    const backOff = new BackOff(() => nowMs)
    expect(backOff.waitMs('a')).toBe(0)
    backOff.killed('a')
    expect(backOff.waitMs('a')).toBe(1000)
    expect(backOff.waitMs('b')).toBe(0)
    nowMs = 1000
    expect(backOff.waitMs('a')).toBe(0)
    backOff.killed('a')
    expect(backOff.waitMs('a')).toBe(2000)
    for (let kill = 0; kill < 20; kill += 1) backOff.killed('a')
    expect(backOff.waitMs('a')).toBe(60_000)
    nowMs += 60_000 + 300_001
    backOff.killed('a')
    expect(backOff.waitMs('a')).toBe(1000)
  })
})
