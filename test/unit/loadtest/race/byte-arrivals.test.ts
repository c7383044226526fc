import { expect, test } from 'vitest'
import { ByteArrivals } from '../../../../src/loadtest/race/geyser-observer.ts'

test('gives a message the time of the chunk that has its last byte', () => {
  const arrivals = new ByteArrivals()
  arrivals.add(100, 1)
  arrivals.add(50, 2)
  arrivals.add(10, 3)
  expect(arrivals.take(40)).toBe(1)
  expect(arrivals.take(60)).toBe(1)
  // From the second chunk into the third.
  expect(arrivals.take(55)).toBe(3)
  expect(arrivals.take(5)).toBe(3)
  arrivals.add(7, 4)
  expect(arrivals.take(7)).toBe(4)
})
