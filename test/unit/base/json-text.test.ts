import { describe, expect, it } from 'vitest'
import { jsonText, ReadyJson } from '../../../src/base/json-text.ts'

describe('jsonText', () => {
  it('is what JSON.stringify gives where that can', () => {
    const value = { a: [1, -2.5, true, null, 'x"\n\u2028'], b: { c: undefined, d: {} }, e: [] }
    expect(jsonText(value)).toBe(JSON.stringify(value))
  })

  it('writes 64-bit integers digit for digit', () => {
    expect(jsonText({ rentEpoch: 2n ** 64n - 1n })).toBe('{"rentEpoch":18446744073709551615}')
  })

  it('takes ready text in verbatim', () => {
    expect(jsonText([new ReadyJson('{"a" : 1}'), 2])).toBe('[{"a" : 1},2]')
  })

  it('has no form for what JSON has none for', () => {
    expect(jsonText([Number.NaN, Number.POSITIVE_INFINITY, undefined])).toBe('[null,null,null]')
  })
})
