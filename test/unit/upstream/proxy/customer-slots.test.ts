import { describe, expect, test } from 'vitest'
import { CustomerSlots } from '../../../../src/upstream/proxy/shown-slots.ts'

describe('the slot tracker', () => {
  test('only raises a slot, each commitment on its own', () => {
    const slots = new CustomerSlots()
    slots.raise('a', 0, 10)
    slots.raise('a', 0, 9)
    slots.raise('a', 2, 7)
    expect([slots.get('a', 0), slots.get('a', 1), slots.get('a', 2)]).toEqual([10, 0, 7])
    expect(slots.get('b', 0)).toBe(0)
  })

  test('evicts the least recently used customer, not the one that came first', () => {
    const slots = new CustomerSlots(3)
    for (const customer of ['a', 'b', 'c']) slots.raise(customer, 0, 10)
    // A lower slot changes nothing, but the customer was used.
    slots.raise('a', 0, 5)
    slots.raise('d', 0, 20)
    const kept = ['a', 'b', 'c', 'd'].map((customer) => slots.get(customer, 0))
    expect(kept).toEqual([10, 0, 10, 20])
    slots.raise('e', 0, 30)
    expect([slots.get('c', 0), slots.get('a', 0)]).toEqual([0, 10])
  })

  test('never tracks more customers than its bound', () => {
    const slots = new CustomerSlots(100)
    for (let at = 0; at < 1_000; at++) slots.raise(`c${at}`, 1, at + 1)
    let held = 0
    for (let at = 0; at < 1_000; at++) if (slots.get(`c${at}`, 1) > 0) held++
    expect(held).toBe(100)
  })
})
