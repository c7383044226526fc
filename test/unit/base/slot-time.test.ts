// The slot time of a chain: by the times of its blocks, however they come.
import { describe, expect, it } from 'vitest'
import { SlotTime } from '../../../src/base/slot-time.ts'
import { randomOf } from '../../testkit/synthetic-solana.ts'

/** The slot time after blocks at these times. */
function measured(times: readonly number[], slotOf = (index: number) => index): number {
  const slotTime = new SlotTime()
  for (const [index, atMs] of times.entries()) slotTime.observe(slotOf(index), atMs)
  return slotTime.ms
}

const steady = (slotMs: number, count = 40) =>
  Array.from({ length: count }, (_, index) => 1e12 + index * slotMs)

describe('the slot time', () => {
  it('is 400 ms until a dozen blocks show another', () => {
    expect(measured(steady(200, 11))).toBe(400)
    expect(measured(steady(200, 12))).toBe(200)
  })

  it.each([400, 350, 300, 250, 200])(
    'is found for slots of %i ms that come in bursts',
    (slotMs) => {
      const random = randomOf(slotMs)
      const bursts = steady(slotMs, 80).map((atMs, index) => atMs - (index % 4) * slotMs * 0.8)
      const noisy = bursts.map((atMs) => atMs + random() * slotMs)
      expect(measured(bursts)).toBe(slotMs)
      expect(Math.abs(measured(noisy) - slotMs)).toBeLessThan(slotMs / 10)
    },
  )

  it('counts skipped slots, and ignores a stop of the chain and blocks that come again', () => {
    const withSkips = (index: number) => index + Math.floor(index / 10)
    const times = Array.from({ length: 60 }, (_, index) => withSkips(index) * 200)
    expect(measured(times, withSkips)).toBe(200)
    const stopped = steady(200, 60).map((atMs, index) => (index > 50 ? atMs + 60_000 : atMs))
    expect(measured(stopped)).toBe(200)
    const again = [...steady(200, 40), ...steady(0, 30)]
    expect(measured(again, (index) => (index < 40 ? index : index - 30))).toBe(200)
  })

  it('follows a chain whose slots become shorter, after some 40 blocks', () => {
    const slotTime = new SlotTime()
    const atOf = (slot: number) => slot * 200 + Math.min(slot, 150) * 200
    for (let slot = 0; slot < 200; slot++) slotTime.observe(slot, atOf(slot))
    expect(slotTime.ms).toBe(200)
    slotTime.restart()
    expect(slotTime.ms).toBe(200)
    for (const [index, time] of steady(400).entries()) slotTime.observe(index, time)
    expect(slotTime.ms).toBe(400)
  })

  it('is bounded, whatever times a node sends', () => {
    expect(measured(steady(0))).toBe(50)
    expect(measured(steady(-1_000))).toBe(50)
    expect(measured(steady(60_000))).toBe(800)
  })

  it('gives the slots of a time', () => {
    const slotTime = new SlotTime()
    expect([slotTime.slotsIn(20_000), slotTime.slotsIn(0), slotTime.slotsIn(100, 64)]).toEqual([
      50, 1, 64,
    ])
    for (const [index, time] of steady(200).entries()) slotTime.observe(index, time)
    expect([slotTime.slotsIn(20_000), slotTime.slotsIn(25_600, 64)]).toEqual([100, 128])
  })
})
