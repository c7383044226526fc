import { getBase58Codec } from '@solana/kit'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  base58TextMax,
  decodeBase58,
  decodeKey,
  encodeBase58,
} from '../../../../src/chain/solana/base58.ts'

const oracle = getBase58Codec()

describe('base58', () => {
  test('encodes and decodes as an independent library does', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        const text = encodeBase58(bytes)
        expect(text).toBe(oracle.decode(bytes))
        expect(decodeBase58(text)).toEqual(bytes)
      }),
      { numRuns: 500 },
    )
  })

  test('keeps leading zeros', () => {
    expect(encodeBase58(new Uint8Array(32))).toBe('1'.repeat(32))
    expect(decodeKey('1'.repeat(32))).toEqual(new Uint8Array(32))
    expect(decodeBase58('')).toEqual(new Uint8Array(0))
    expect(encodeBase58(new Uint8Array(0))).toBe('')
  })

  test('encodes a range of a larger buffer', () => {
    const bytes = Uint8Array.from({ length: 100 }, (_, index) => index * 7)
    expect(encodeBase58(bytes, 30, 62)).toBe(encodeBase58(bytes.slice(30, 62)))
  })

  test('survives a whole transaction', () => {
    const bytes = Uint8Array.from({ length: 1232 }, () => 255)
    expect(decodeBase58(encodeBase58(bytes))).toEqual(bytes)
  })

  test('encodes what is longer than a transaction', () => {
    for (const length of [1_233, 1_499, 1_500, 2_047, 4_000, 10_240]) {
      const bytes = Uint8Array.from({ length }, (_, index) => 255 - (index % 7))
      expect(encodeBase58(bytes), `${length}`).toBe(oracle.decode(bytes))
    }
  })

  test('decodes a text of any length up to the longest, with and without leading zeros', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 60, maxLength: 1_232 }),
        fc.integer({ min: 0, max: 40 }),
        (bytes, zeros) => {
          bytes.fill(0, 0, zeros)
          expect(decodeBase58(oracle.decode(bytes))).toEqual(bytes)
        },
      ),
      { numRuns: 100 },
    )
    for (let length = 85; length < 110; length++) {
      const bytes = Uint8Array.from({ length }, () => 1)
      expect(decodeBase58(oracle.decode(bytes)), `${length}`).toEqual(bytes)
    }
  })

  test('finds a wrong character wherever it is in a long text', () => {
    for (let at = 0; at < 1_683; at += 41)
      for (const wrong of ['0', '\u0131', ' '])
        expect(decodeBase58(`${'z'.repeat(at)}${wrong}${'z'.repeat(1_682 - at)}`)).toBeNull()
  })

  test('the longest text is that of 1,232 bytes of 255, and one character more is refused', () => {
    const longest = encodeBase58(new Uint8Array(1_232).fill(255))
    expect(longest.length).toBe(base58TextMax)
    expect(decodeBase58(`${longest}1`)).toBeNull()
    // Of the same length, yet more than a transaction: decoded, and refused for its size later.
    expect(decodeBase58('z'.repeat(base58TextMax))).toHaveLength(1_233)
  })

  test('refuses text that is not base58', () => {
    for (const text of ['0', 'O', 'I', 'l', ' 1', 'é', '1\n', '\u0131', '1'.repeat(1684)])
      expect(decodeBase58(text), JSON.stringify(text)).toBeNull()
    expect(decodeKey('1'.repeat(31))).toBeNull()
    expect(decodeKey('1'.repeat(45))).toBeNull()
    expect(decodeKey('z'.repeat(44))).toBeNull()
  })
})
