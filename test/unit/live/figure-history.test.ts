// Tests the figures of the last blocks against a plain sorted list.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { FigureHistory, type Figures } from '../../../src/live/figure-history.ts'

const figures = (number: number, tps = number * 2): Figures => ({
  number,
  tps,
  efficiency: 99,
  contended: 1,
  written: 1,
  critical: 1,
  txns: 9,
  wallMs: 5,
})
const numbers = (history: FigureHistory) =>
  Array.from({ length: history.length }, (_, row) => history.value('number', row))

describe('History', () => {
  test('keeps the newest blocks in order, whatever the order of arrival', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 60 }), { maxLength: 120 }), (arrived) => {
        const history = new FigureHistory(64)
        for (const number of arrived) history.add(figures(number), `h${number}`)
        expect(numbers(history)).toEqual([...new Set(arrived)].sort((a, b) => a - b))
      }),
    )
  })

  test('drops the oldest at its capacity, over many turns of its arrays', () => {
    const history = new FigureHistory(16)
    for (let number = 1; number <= 1000; number++) history.add(figures(number), `h${number}`)
    expect(numbers(history)).toEqual(Array.from({ length: 16 }, (_, at) => 985 + at))
    expect(history.hash(15)).toBe('h1000')
    expect(history.window(5)).toEqual({ from: 11, to: 16 })
    expect(history.window(5, 990)).toEqual({ from: 1, to: 6 })
  })

  test('has one row per height: the same proposal completes it, another is counted', () => {
    const history = new FigureHistory(16)
    history.add(figures(7, Number.NaN), 'a')
    history.add(figures(7, 70), 'a')
    history.add(figures(7, 71), 'b')
    expect([history.length, history.value('tps', 0), history.value('rivals', 0)]).toEqual([
      1, 70, 1,
    ])
    history.add(figures(7, Number.NaN), 'a')
    expect(history.value('tps', 0)).toBe(70)
    history.replace(figures(7, 71), 'b')
    expect([history.hash(0), history.value('tps', 0)]).toEqual(['b', 71])
  })

  test('finds a block, and the nearest where it is missing', () => {
    const history = new FigureHistory(16)
    for (const number of [10, 11, 20]) history.add(figures(number), '')
    expect([history.rowOf(11), history.rowOf(12)]).toEqual([1, -1])
    expect([9, 12, 17, 99].map((number) => history.nearest(number))).toEqual([0, 1, 2, 2])
    expect(new FigureHistory(4).nearest(1)).toBe(-1)
  })
})
