// Latencies: percentiles close to the true ones, and times that no clock gives.
import { describe, expect, it } from 'vitest'
import { Latencies } from '../../../src/loadtest/latencies.ts'

describe('latencies', () => {
  it('have percentiles within two thousandths', () => {
    const latencies = new Latencies()
    for (let us = 1; us <= 10_000; us += 1) latencies.record(us / 1000)
    expect(latencies.count).toBe(10_000)
    for (const percent of [1, 50, 99, 99.9])
      expect(Math.abs(latencies.percentile(percent)! / (percent / 10) - 1)).toBeLessThan(0.002)
  })

  it('take zero, negative and endless times', () => {
    const latencies = new Latencies()
    for (const ms of [0, -5, 1e30]) latencies.record(ms)
    expect(latencies.count).toBe(3)
    expect(latencies.percentile(50)).toBe(0)
  })
})
