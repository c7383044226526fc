import { describe, expect, test } from 'vitest'
import { clears, floorOf } from '../../../../src/loadtest/race/connections.ts'
import { scoreOf } from '../../../../src/loadtest/race/score.ts'
import { SightTable } from '../../../../src/loadtest/race/sight-table.ts'
import { SeededRandom } from '../../../../src/loadtest/statistics.ts'

const always = { startMs: 0, endMs: Number.POSITIVE_INFINITY }

/** Items of 40 slots, 25 each; `delays` gives the delay of each endpoint, NaN: not shown. */
function tableOf(endpoints: number, delays: (item: number) => readonly number[]): SightTable {
  const table = new SightTable(endpoints)
  for (let item = 0; item < 1_000; item++)
    for (const [endpoint, delayMs] of delays(item).entries())
      if (!Number.isNaN(delayMs))
        table.add(endpoint, `item ${item}`, Math.floor(item / 25), 1_000 + item + delayMs)
  return table
}

describe('the score of a race', () => {
  test('reports an endpoint that is 5 ms late as 5 ms, and the share as 100 to 0', () => {
    const random = new SeededRandom(3)
    const score = scoreOf(
      tableOf(2, () => [random.next() * 0.1, 5 + random.next() * 0.1]),
      always,
      1,
    )
    const [pair] = score.pairs
    expect(score).toMatchObject({ items: 1_000, slots: 40 })
    expect(score.endpoints.map(({ firstShare }) => firstShare)).toEqual([1, 0])
    expect(score.endpoints[0]!.behindMs).toBeNull()
    expect(score.endpoints[1]!.behindMs!.p50).toBeCloseTo(5, 1)
    expect(pair).toMatchObject({ samples: 1_000, slots: 40 })
    expect(pair!.medianMs).toBeCloseTo(5, 1)
    expect(pair!.interval!.low).toBeGreaterThan(4.7)
    expect(pair!.interval!.high).toBeLessThan(5.3)
    expect(pair!.interval!.low).toBeLessThanOrEqual(pair!.medianMs!)
    expect(pair!.interval!.high).toBeGreaterThanOrEqual(pair!.medianMs!)
  })

  test('reports 2 % that an endpoint did not show as missing there, and drops nothing', () => {
    const table = tableOf(2, (item) => [0, item % 50 === 7 ? Number.NaN : 1])
    const { items, endpoints, pairs } = scoreOf(table, always, 1)
    expect(items).toBe(1_000)
    expect(endpoints[0]).toMatchObject({ seen: 1_000, missing: 0, missingShare: 0 })
    expect(endpoints[1]).toMatchObject({ seen: 980, missing: 20, missingShare: 0.02 })
    expect(endpoints[1]!.missingInterval.low).toBeGreaterThan(0.012)
    expect(endpoints[1]!.missingInterval.high).toBeLessThan(0.032)
    expect(endpoints.map(({ firstShare }) => firstShare)).toEqual([1, 0])
    expect(pairs[0]!.samples).toBe(980)
  })

  test('gives an item that only the slower endpoint showed to that endpoint', () => {
    const table = tableOf(2, (item) => [item < 250 ? Number.NaN : 0, 3])
    const { endpoints } = scoreOf(table, always, 1)
    expect(endpoints.map(({ firstShare }) => firstShare)).toEqual([0.75, 0.25])
    expect(endpoints[1]!.behindMs).toMatchObject({ count: 750, p50: 3, p90: 3, p99: 3 })
  })

  test('splits stamps within 50 us of the first, and only those', () => {
    const { endpoints } = scoreOf(
      tableOf(3, () => [0, 0.04, 0.06]),
      always,
      1,
    )
    expect(endpoints.map(({ firstShare }) => firstShare)).toEqual([0.5, 0.5, 0])
    expect(endpoints[1]!.behindMs).toBeNull()
    expect(endpoints[2]!.behindMs!.p99).toBeCloseTo(0.06, 6)
  })

  test('counts an item by its first sight, whichever endpoint had it', () => {
    const table = new SightTable(2)
    table.add(0, 'before', 1, 99)
    table.add(1, 'before', 1, 101)
    table.add(1, 'inside', 2, 199)
    table.add(0, 'inside', 2, 250)
    table.add(0, 'after', 3, 200)
    const { items, endpoints } = scoreOf(table, { startMs: 100, endMs: 200 }, 1)
    expect(items).toBe(1)
    expect(endpoints.map(({ seen }) => seen)).toEqual([1, 1])
    expect(endpoints[0]!.behindMs!.p50).toBe(51)
  })

  test('has no interval and no difference without common items', () => {
    const table = tableOf(2, (item) => (item % 2 === 0 ? [0, Number.NaN] : [Number.NaN, 0]))
    const [pair] = scoreOf(table, always, 1).pairs
    expect(pair).toMatchObject({ samples: 0, medianMs: null, interval: null })
    expect(scoreOf(new SightTable(2), always, 1)).toMatchObject({ items: 0 })
  })
})

describe('the table of sights', () => {
  test('keeps the earliest stamp of an endpoint and counts repeats', () => {
    const table = new SightTable(2)
    for (const atMs of [5, 3, 9]) table.add(1, 'x', 7, atMs)
    expect(table.stampOf(0, 1)).toBe(3)
    expect(table.stampOf(0, 0)).toBeNaN()
    expect([...table.repeats]).toEqual([0, 2])
    expect(table.slotOf(0)).toBe(7)
  })

  test('counts sights of new items once it is full, and still pairs the others', () => {
    const table = new SightTable(2, 2)
    for (const key of ['x', 'y', 'z']) table.add(0, key, 1, 1)
    table.add(1, 'y', 1, 2)
    expect([table.rows, table.overflow]).toEqual([2, 1])
    expect(table.stampOf(1, 1)).toBe(2)
  })

  test('grows beyond its first size without losing a stamp', () => {
    const table = new SightTable(3)
    for (let item = 0; item < 10_000; item++) table.add(item % 3, String(item), item, item + 0.5)
    expect(table.rows).toBe(10_000)
    for (let item = 0; item < 10_000; item += 97) {
      expect(table.stampOf(item, item % 3)).toBe(item + 0.5)
      expect(table.stampOf(item, (item + 1) % 3)).toBeNaN()
      expect(table.slotOf(item)).toBe(item)
    }
  })
})

/** A null run of 10 s: 25 slots of transactions whose differences have a part of their slot. */
function nullInterval(seed: number) {
  const random = new SeededRandom(seed * 7_919 + 13)
  const normal = () =>
    Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next())
  const table = new SightTable(2)
  for (let slot = 0; slot < 25; slot++) {
    const ofSlot = normal() * 0.4
    const items = 5 + random.below(60)
    for (let item = 0; item < items; item++) {
      const atMs = slot * 400 + item * 5
      table.add(0, `${slot} ${item}`, slot, atMs)
      table.add(1, `${slot} ${item}`, slot, atMs + ofSlot + normal() * 0.3)
    }
  }
  return scoreOf(table, { startMs: -100, endMs: 1e9 }, seed).pairs[0]!.interval!
}

describe('the null run', () => {
  test('has an interval that holds 0 in at least 95 of 100 seeds', () => {
    const intervals = Array.from({ length: 100 }, (_, seed) => nullInterval(seed))
    const holding = intervals.filter(({ low, high }) => low <= 0 && high >= 0).length
    expect(holding).toBeGreaterThanOrEqual(95)
    // An interval that holds everything would say nothing.
    const widths = intervals.map(({ low, high }) => high - low).sort((a, b) => a - b)
    expect(widths[50]).toBeLessThan(0.6)
  })

  test('must be cleared by a difference on one side', () => {
    const floorMs = floorOf({ low: -0.3, high: 0.1 })
    expect(floorMs).toBe(0.3)
    expect(clears({ low: 0.31, high: 0.5 }, floorMs)).toBe(true)
    expect(clears({ low: -0.5, high: -0.31 }, floorMs)).toBe(true)
    expect(clears({ low: 0.29, high: 0.5 }, floorMs)).toBe(false)
    expect(clears({ low: -0.5, high: 0.5 }, floorMs)).toBe(false)
    expect(clears(null, floorMs)).toBe(false)
    expect(floorOf(null)).toBe(0.05)
  })
})
