import { describe, expect, test } from 'vitest'
import {
  ageSecs,
  isServing,
  StaleWatch,
  statusOf,
} from '../../../../src/products/metrics/health.ts'

describe('status', () => {
  test.each([
    [0, 'healthy'],
    [10_000, 'healthy'],
    [10_000.001, 'degraded'],
    [60_000, 'degraded'],
  ])('at an age of %d ms is %s', (ageMs, status) => {
    expect(statusOf(ageMs)).toBe(status)
  })

  test('serves until 30 s and rounds ages down', () => {
    expect([29_999.9, 30_000].map(isServing)).toEqual([true, false])
    expect([0, 999.9, 1000, 29_999].map(ageSecs)).toEqual([0, 0, 1, 29])
  })
})

describe('StaleWatch', () => {
  /** Silence from time 0 on, checked every 100 ms. */
  function silence(watch: StaleWatch, fromMs: number, toMs: number): [number, string][] {
    const steps: [number, string][] = []
    for (let nowMs = fromMs; nowMs <= toMs; nowMs += 100) {
      const step = watch.step(nowMs, nowMs)
      if (step !== 'nothing') steps.push([nowMs, step])
    }
    return steps
  }

  test('drains at 30 s, closes 2 s later, restarts the source every 30 s', () => {
    const watch = new StaleWatch()
    expect(silence(watch, 0, 100_000)).toEqual([
      [30_000, 'drain'],
      [32_000, 'close'],
      [62_000, 'restart'],
      [92_000, 'restart'],
    ])
  })

  test('stays open when an event comes while it drains', () => {
    const watch = new StaleWatch()
    silence(watch, 0, 31_000)
    expect(watch.step(50, 31_100)).toBe('recover')
    expect(watch.step(150, 31_200)).toBe('nothing')
  })

  test('reopens with the first event after the closing', () => {
    const watch = new StaleWatch()
    silence(watch, 0, 40_000)
    expect(watch.step(20, 40_100)).toBe('open')
    expect(watch.step(120, 40_200)).toBe('nothing')
  })

  test('does not mistake the last event before the closing for a new one', () => {
    const watch = new StaleWatch()
    silence(watch, 0, 32_000)
    // The age grows with the time: it is still the old event.
    expect(watch.step(32_100, 32_100)).toBe('nothing')
  })
})
