import { describe, expect, test } from 'vitest'
import { SlotMarks } from '../../../../src/upstream/proxy/slot-marks.ts'

describe('slot marks', () => {
  test('only rise, each commitment on its own', () => {
    const marks = new SlotMarks()
    marks.raise('a', 0, 10)
    marks.raise('a', 0, 9)
    marks.raise('a', 2, 7)
    expect([marks.get('a', 0), marks.get('a', 1), marks.get('a', 2)]).toEqual([10, 0, 7])
    expect(marks.get('b', 0)).toBe(0)
  })

  test('forget the least recently used customer, not the one that came first', () => {
    const marks = new SlotMarks(3)
    for (const customer of ['a', 'b', 'c']) marks.raise(customer, 0, 10)
    // A lower slot is no new mark, and still shows that the customer is there.
    marks.raise('a', 0, 5)
    marks.raise('d', 0, 20)
    const kept = ['a', 'b', 'c', 'd'].map((customer) => marks.get(customer, 0))
    expect(kept).toEqual([10, 0, 10, 20])
    marks.raise('e', 0, 30)
    expect([marks.get('c', 0), marks.get('a', 0)]).toEqual([0, 10])
  })

  test('never hold more customers than they may', () => {
    const marks = new SlotMarks(100)
    for (let at = 0; at < 1_000; at++) marks.raise(`c${at}`, 1, at + 1)
    let held = 0
    for (let at = 0; at < 1_000; at++) if (marks.get(`c${at}`, 1) > 0) held++
    expect(held).toBe(100)
  })
})
