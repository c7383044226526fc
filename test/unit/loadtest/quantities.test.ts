import { describe, expect, test } from 'vitest'
import { meets, parseConditions, parsePercent, parseRate } from '../../../src/loadtest/result.ts'

const known = ['p99', 'errors', 'achieved']

describe('quantities of a bench', () => {
  test.each([
    ['5000', 5_000],
    ['5k', 5_000],
    ['2.5k/s', 2_500],
    ['1M', 1e6],
    ['0.5', 0.5],
    ['0', null],
    ['-5', null],
    ['5 k', null],
    ['1e9', null],
    ['', null],
  ])('reads the rate %s', (text, rate) => {
    expect(parseRate(text)).toBe(rate)
  })

  test('reads percentages', () => {
    expect(parsePercent('10%')).toBe(0.1)
    expect(parsePercent('10')).toBe(null)
  })

  test('reads conditions in the unit of their figure', () => {
    const read = parseConditions('find', 'p99<5ms, errors<0.1%,achieved>9k', known)
    expect(
      read.ok && read.value.map(({ figure, relation, bound }) => [figure, relation, bound]),
    ).toEqual([
      ['p99', '<', 5],
      ['errors', '<', 0.001],
      ['achieved', '>', 9_000],
    ])
    const small = parseConditions('find', 'p99<1.5ms,p99<250us,p99<2s', known)
    expect(small.ok && small.value.map(({ bound }) => bound)).toEqual([1.5, 0.25, 2_000])
  })

  test.each(['p99', 'p99<', 'p99=5ms', 'p98<5ms', 'p99<fast', ''])('refuses %j', (text) => {
    expect(parseConditions('find', text, known).ok).toBe(false)
  })

  test('holds a figure that was not measured for no condition', () => {
    const condition = { figure: 'p99', relation: '<', bound: 5, text: '' } as const
    expect(meets(null, condition)).toBe(false)
    expect(meets(4.9, condition)).toBe(true)
    expect(meets(5, condition)).toBe(false)
    expect(meets(6, { ...condition, relation: '>' })).toBe(true)
  })
})
