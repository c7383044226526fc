import { describe, expect, it } from 'vitest'
import { inTurns, whenDone } from '../../../src/base/steps.ts'

const double = (value: number) => value * 2

describe('inTurns', () => {
  it('does a few items at once', () => {
    expect(inTurns([1, 2, 3], 3, double)).toEqual([2, 4, 6])
    expect(inTurns([], 3, double)).toEqual([])
  })

  it('does many in order and lets others in between', async () => {
    const items = Array.from({ length: 10 }, (_, index) => index)
    let others = 0
    const made = inTurns(items, 3, double)
    expect(made).toBeInstanceOf(Promise)
    const tick = () => {
      others += 1
      if (others < 3) setImmediate(tick)
    }
    setImmediate(tick)
    expect(await made).toEqual(items.map(double))
    expect(others).toBeGreaterThan(1)
  })
})

describe('whenDone', () => {
  it('continues at once or later', async () => {
    expect(whenDone(1, double)).toBe(2)
    expect(await whenDone(Promise.resolve(1), double)).toBe(2)
  })
})
