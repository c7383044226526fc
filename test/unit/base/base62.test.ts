import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { base62OfBytes, toBase62 } from '../../../src/customers/subscriptions/issue.ts'

describe('base 62', () => {
  it('writes numbers with digits, capitals and small letters, padded with zeros', () => {
    expect(toBase62(0, 6)).toBe('000000')
    expect(toBase62(61, 1)).toBe('z')
    expect(toBase62(62, 2)).toBe('10')
    expect(toBase62(0xffffffff, 6)).toBe('4gfFC3')
  })

  it('writes every 32-bit number in six characters, reversibly', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 0xffffffff }), (value) => {
        const text = toBase62(value, 6)
        expect(text).toMatch(/^[0-9A-Za-z]{6}$/)
        const back = [...text].reduce((sum, char) => sum * 62 + digit(char), 0)
        expect(back).toBe(value)
      }),
    )
  })

  it('makes every character equally likely and drops the bytes that would not', () => {
    const text = base62OfBytes(Uint8Array.from({ length: 256 }, (_, byte) => byte))
    const counts = new Map<string, number>()
    for (const char of text) counts.set(char, (counts.get(char) ?? 0) + 1)
    expect([...counts.values()]).toEqual(new Array(62).fill(4))
  })
})

function digit(char: string): number {
  if (char <= '9') return Number(char)
  return char <= 'Z' ? char.charCodeAt(0) - 55 : char.charCodeAt(0) - 61
}
