import { describe, expect, it } from 'vitest'
import { jsonText, ReadyJson, sortedMembers } from '../../../src/base/json-text.ts'

describe('jsonText', () => {
  it('equals the output of JSON.stringify where that supports the value', () => {
    const value = { a: [1, -2.5, true, null, 'x"\n\u2028'], b: { c: undefined, d: {} }, e: [] }
    expect(jsonText(value)).toBe(JSON.stringify(value))
  })

  it('sorts members at every depth, and nothing else', () => {
    const value = { b: [{ d: 1n, c: null }, 2], a: new ReadyJson('{"z":1,"y":2}') }
    expect(jsonText(sortedMembers(value))).toBe('{"a":{"z":1,"y":2},"b":[{"c":null,"d":1},2]}')
  })

  it('writes 64-bit integers digit for digit', () => {
    expect(jsonText({ rentEpoch: 2n ** 64n - 1n })).toBe('{"rentEpoch":18446744073709551615}')
  })

  it('embeds ready text verbatim', () => {
    expect(jsonText([new ReadyJson('{"a" : 1}'), 2])).toBe('[{"a" : 1},2]')
  })

  it('writes values that JSON cannot express as null', () => {
    expect(jsonText([Number.NaN, Number.POSITIVE_INFINITY, undefined])).toBe('[null,null,null]')
  })
})
