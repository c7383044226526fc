import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Bucket } from '../../../src/base/bucket.ts'

describe('the bucket', () => {
  it('admits its burst at once and then its rate', () => {
    const bucket = new Bucket({ perSecond: 3, burst: 5 })
    for (let count = 0; count < 5; count++) {
      expect(bucket.waitMs(1, 1000)).toBe(0)
      bucket.take(1, 1000)
    }
    expect(bucket.available(1000)).toBe(0)
    expect(bucket.waitMs(1, 1000)).toBeCloseTo(1000 / 3)
    expect(bucket.waitMs(1, 1334)).toBe(0)
    expect(bucket.waitMs(6, 1000)).toBe(Number.POSITIVE_INFINITY)
    expect(bucket.fullInMs(1000)).toBeCloseTo(5000 / 3)
    expect(bucket.available(10_000)).toBe(5)
  })

  const steps = fc.array(
    fc.record({
      afterMs: fc.oneof(fc.constant(0), fc.double({ min: 0, max: 3000, noNaN: true })),
      cost: fc.integer({ min: 1, max: 30 }),
    }),
    { maxLength: 200 },
  )
  const rates = fc.record({
    perSecond: fc.integer({ min: 1, max: 500 }),
    burst: fc.integer({ min: 1, max: 500 }),
  })

  it('admits in every period of t seconds at most burst + rate x t', () => {
    fc.assert(
      fc.property(rates, steps, fc.integer({ min: 0, max: 1e9 }), (rate, asked, startMs) => {
        const bucket = new Bucket(rate)
        const admitted: { atMs: number; cost: number }[] = []
        let nowMs = startMs
        for (const { afterMs, cost } of asked) {
          nowMs += afterMs
          if (bucket.waitMs(cost, nowMs) !== 0) continue
          bucket.take(cost, nowMs)
          admitted.push({ atMs: nowMs, cost })
        }
        for (const [first, { atMs }] of admitted.entries()) {
          let total = 0
          for (const later of admitted.slice(first)) {
            total += later.cost
            const most = rate.burst + (rate.perSecond * (later.atMs - atMs)) / 1000
            expect(total).toBeLessThanOrEqual(most + 1e-4)
          }
        }
      }),
    )
  })

  it('admits what it refused after the wait it returned', () => {
    fc.assert(
      fc.property(rates, steps, (rate, asked) => {
        const bucket = new Bucket(rate)
        let nowMs = 5000
        for (const { afterMs, cost } of asked) {
          nowMs += afterMs
          const waitMs = bucket.waitMs(cost, nowMs)
          if (waitMs === Number.POSITIVE_INFINITY) expect(cost).toBeGreaterThan(rate.burst)
          else {
            nowMs += waitMs
            expect(bucket.waitMs(cost, nowMs)).toBe(0)
            bucket.take(cost, nowMs)
          }
        }
      }),
    )
  })

  it('keeps its debt when its rate changes', () => {
    const bucket = new Bucket({ perSecond: 100, burst: 200 })
    bucket.take(150, 0)
    bucket.change({ perSecond: 10, burst: 200 }, 0)
    expect(bucket.available(0)).toBe(50)
    bucket.change({ perSecond: 10, burst: 20 }, 0)
    expect(bucket.available(0)).toBe(0)
    expect(bucket.waitMs(1, 0)).toBeCloseTo(100)
  })
})
