import { afterEach, expect, test, vi } from 'vitest'
import { backoffMs } from '../../../src/base/clock.ts'

const bounds = { firstMs: 100, lastMs: 1_000 }

afterEach(() => vi.restoreAllMocks())

test('doubles with every failure in a row, up to the last value', () => {
  vi.spyOn(Math, 'random').mockReturnValue(1)
  const delays = [1, 2, 3, 4, 5, 40, 5_000].map((failures) => backoffMs(failures, bounds))
  expect(delays).toEqual([100, 200, 400, 800, 1_000, 1_000, 1_000])
})

test('spreads retries over the upper half of the delay', () => {
  const delays = Array.from({ length: 1_000 }, () => backoffMs(2, bounds))
  expect(Math.min(...delays)).toBeGreaterThanOrEqual(100)
  expect(Math.max(...delays)).toBeLessThanOrEqual(200)
  expect(Math.min(...delays)).toBeLessThan(125)
  expect(Math.max(...delays)).toBeGreaterThan(175)
})
