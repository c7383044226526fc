// The watch over running queries and the back-off behind it, on a clock that stands still.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { BackOff } from '../../../../../src/products/indexer/duckdb/back-off.ts'
import { QueryWatch, type Watched } from '../../../../../src/products/indexer/duckdb/watch.ts'

let nowMs = 0
beforeEach(() => {
  nowMs = 0
  vi.useFakeTimers()
})
afterEach(() => vi.useRealTimers())

function watched(change: Partial<Watched> = {}) {
  const told: string[] = []
  const one: Watched = {
    rssBytesMax: 100,
    timeMsMax: 1000,
    rssBytes: () => 50,
    isReaderSlow: () => false,
    onLate: () => told.push('late'),
    onKill: (reason) => told.push(`kill ${reason}`),
    ...change,
  }
  return { one, told }
}

function pass(watch: QueryWatch, ms: number): void {
  for (let passed = 0; passed < ms; passed += 20) {
    nowMs += 20
    watch.tick()
  }
}

describe('the watch over a query', () => {
  test('asks it to end when its time is up and kills it when it does not listen', () => {
    const watch = new QueryWatch(() => nowMs)
    const { one, told } = watched()
    watch.add(one)
    pass(watch, 980)
    expect(told).toEqual([])
    pass(watch, 40)
    expect(told).toEqual(['late'])
    pass(watch, 500)
    expect(told[1]).toBe('kill time')
    watch.remove(one)
    pass(watch, 1000)
    expect(told.length).toBeLessThan(4)
  })

  test('kills it at once when it has too much memory', () => {
    const watch = new QueryWatch(() => nowMs)
    const { one, told } = watched({ rssBytes: () => 101 })
    watch.add(one)
    pass(watch, 20)
    expect(told).toEqual(['kill memory'])
  })

  test('does not count the time of a slow reader, up to a bound', () => {
    const watch = new QueryWatch(() => nowMs)
    const { one, told } = watched({ isReaderSlow: () => true })
    watch.add(one)
    pass(watch, 59_900)
    expect(told).toEqual([])
    pass(watch, 200)
    expect(told).toEqual(['late'])
  })

  test('kills what somebody else told to end and does not', () => {
    const watch = new QueryWatch(() => nowMs)
    const { one, told } = watched()
    watch.add(one)
    watch.told(one)
    pass(watch, 480)
    expect(told).toEqual([])
    pass(watch, 40)
    expect(told).toContain('kill time')
  })
})

describe('the back-off of a subscription', () => {
  test('doubles with each kill, forgets after a while, and is its own', () => {
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
