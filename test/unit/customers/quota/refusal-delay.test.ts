// Refusals are delayed, so that retrying at once gains nothing.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { RefusalDelay } from '../../../../src/customers/quota/rates.ts'

describe('a delayed refusal', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  it('waits as long as the client should, at most a second', async () => {
    const delay = new RefusalDelay()
    const over: string[] = []
    void delay.delay('a', 200)?.then(() => over.push('short'))
    void delay.delay('a', 60_000)?.then(() => over.push('long'))
    await vi.advanceTimersByTimeAsync(199)
    expect(over).toEqual([])
    await vi.advanceTimersByTimeAsync(1)
    expect(over).toEqual(['short'])
    await vi.advanceTimersByTimeAsync(800)
    expect(over).toEqual(['short', 'long'])
  })

  it('delays a bounded number per client, and more once those are sent', async () => {
    const delay = new RefusalDelay()
    const held = Array.from({ length: 20 }, () => delay.delay('a', 500) !== null)
    expect(held.filter((isHeld) => isHeld)).toHaveLength(16)
    expect(delay.delay('b', 500)).not.toBeNull()
    await vi.advanceTimersByTimeAsync(500)
    expect(delay.delay('a', 500)).not.toBeNull()
  })

  it('spreads those of one moment, so that they do not come again all at once', async () => {
    const delay = new RefusalDelay()
    const over: number[] = []
    for (let index = 0; index < 16; index++)
      void delay.delay('a', 800)?.then(() => over.push(index))
    await vi.advanceTimersByTimeAsync(400)
    expect(over).toEqual([])
    for (let waiting = 16; waiting > 0; waiting--) {
      await vi.advanceTimersByTimeAsync(25)
      expect(over).toHaveLength(17 - waiting)
    }
  })
})
