import { describe, expect, test } from 'vitest'
import { LatencyWindow } from '../../../../src/upstream/node-pool/upstream-node.ts'

describe('the latencies of the last minute', () => {
  test('have percentiles that are at most 26 percent too high', () => {
    const window = new LatencyWindow()
    for (let ms = 1; ms <= 1_000; ms++) window.observe(ms, 0)
    for (const part of [0.01, 0.5, 0.9, 0.99, 1]) {
      const found = window.percentile(part, 0) ?? 0
      expect(found).toBeGreaterThanOrEqual(part * 1_000 * 0.9999)
      expect(found).toBeLessThan(part * 1_000 * 1.27)
    }
  })

  test('are nothing when there were none', () => {
    expect(new LatencyWindow().percentile(0.5, 1)).toBeNull()
    expect(new LatencyWindow().count(1)).toBe(0)
  })

  test('leave after a minute, the old ones first', () => {
    const window = new LatencyWindow()
    window.observe(1, 5_000)
    window.observe(100, 35_000)
    expect(window.count(59_999)).toBe(2)
    expect(window.count(60_000)).toBe(1)
    expect(window.percentile(0.01, 60_000)).toBeGreaterThan(99)
    expect(window.count(1_000_000)).toBe(0)
    window.observe(3, 1_000_000)
    expect(window.count(1_000_000)).toBe(1)
  })

  test('take the very short and the very long into the outermost buckets', () => {
    const window = new LatencyWindow()
    window.observe(0, 0)
    expect(window.percentile(1, 0)).toBe(0.05)
    window.observe(1e9, 0)
    expect(window.percentile(1, 0)).toBeGreaterThan(100_000)
  })
})
