import fc from 'fast-check'
import { Unpackr, unpack } from 'msgpackr'
import { describe, expect, test } from 'vitest'
import { jsonToMsgpack } from '../../../../src/streams/log/encoded.ts'

// Maps, because the decoder renames a key `__proto__` when it makes objects.
const unpackr = new Unpackr({ int64AsType: 'number', mapsAsObjects: false })
const turn = (text: string): unknown => plain(unpackr.unpack(jsonToMsgpack(Buffer.from(text))))

function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain)
  if (!(value instanceof Map)) return value
  return Object.fromEntries([...value].map(([key, one]) => [key, plain(one)]))
}

describe('jsonToMsgpack', () => {
  test('decodes to the same value as the JSON it was made from, for any value', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.boolean(), (value, isPretty) => {
        const text = JSON.stringify(value, null, isPretty ? 2 : 0)
        expect(turn(text)).toEqual(JSON.parse(text))
      }),
      { numRuns: 500 },
    )
  })

  test('keeps a key that JavaScript objects treat specially', () => {
    expect(JSON.stringify(turn('{"__proto__":{"a":1}}'))).toBe('{"__proto__":{"a":1}}')
  })

  test('keeps 64-bit integers exact where a JavaScript number would not', () => {
    expect(unpack(jsonToMsgpack(Buffer.from('18446744073709551615')))).toBe(18446744073709551615n)
    expect(unpack(jsonToMsgpack(Buffer.from('-9223372036854775808')))).toBe(-9223372036854775808n)
    expect(jsonToMsgpack(Buffer.from('9007199254740993')).readBigUInt64BE(1)).toBe(
      9007199254740993n,
    )
  })

  test.each([
    0, 127, 128, 255, 256, 65535, 65536, 4294967295, 4294967296, -1, -32, -33, -70000, 0.5, 1e300,
  ])('writes %d', (value) => {
    expect(turn(JSON.stringify(value))).toBe(value)
  })

  test('has enough memory for text that grows: short floats and empty lists', () => {
    expect(turn(`[${Array(500).fill('.5'.padStart(3, '0')).join(',')}]`)).toHaveLength(500)
    expect(turn(`[${Array(500).fill('[]').join(',')}]`)).toHaveLength(500)
    expect(turn(`[${Array(500).fill('1e1').join(',')}]`)).toHaveLength(500)
  })

  test.each(['', '{', '[1', '"a', 'tru', '1 2', '{"a" 1}', '[1 2]'])(
    'takes %j for a bug',
    (text) => {
      expect(() => jsonToMsgpack(Buffer.from(text))).toThrow('invariant broken')
    },
  )
})
