import { describe, expect, test } from 'vitest'
import { shapeProblems } from '../../testkit/golden.ts'

describe('golden shapes', () => {
  const golden = { seq: 1, TPS: { a: '0xff', 'b?': true, list: [{ key: 'x' }] } }

  test('accept other values, added fields and absent optionals', () => {
    expect(shapeProblems(golden, { seq: 9, more: 1, TPS: { a: '0x', list: [] } })).toEqual([])
  })

  test('fail on a removed, renamed or retyped field, anywhere', () => {
    const value = { seq: '1', TPS: { A: '0xff', b: 1, list: [{ key: 'y' }, { kez: 'y' }] } }
    expect(shapeProblems(golden, value)).toEqual([
      '$.seq: was number, is string',
      '$.TPS.a: is gone',
      '$.TPS.b: was boolean, is number',
      '$.TPS.list[1].key: is gone',
    ])
  })
})
