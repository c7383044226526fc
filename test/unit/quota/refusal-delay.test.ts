// Refusals that are held back, so that repeating them at once is of no use.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { RefusalDelay } from '../../../src/quota/refusal-delay.ts'

describe('a delayed refusal', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  it('waits as long as the client should, at most a second', async () => {
    const delay = new RefusalDelay()
    const over: string[] = []
    void delay.hold('a', 200)?.then(() => over.push('short'))
    void delay.hold('a', 60_000)?.then(() => over.push('long'))
    await vi.advanceTimersByTimeAsync(199)
    expect(over).toEqual([])
    await vi.advanceTimersByTimeAsync(1)
    expect(over).toEqual(['short'])
    await vi.advanceTimersByTimeAsync(800)
    expect(over).toEqual(['short', 'long'])
  })

  it('holds so many of each client, and has room again afterwards', async () => {
    const delay = new RefusalDelay()
    const held = Array.from({ length: 20 }, () => delay.hold('a', 500) !== null)
    expect(held.filter((isHeld) => isHeld)).toHaveLength(16)
    expect(delay.hold('b', 500)).not.toBeNull()
    await vi.advanceTimersByTimeAsync(500)
    expect(delay.hold('a', 500)).not.toBeNull()
  })
})
