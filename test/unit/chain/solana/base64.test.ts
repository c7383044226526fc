import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { base58Problem } from '../../../../src/chain/solana/base58.ts'
import { base64Problem, decodeBase64 } from '../../../../src/chain/solana/base64.ts'

describe('base64', () => {
  it('is decoded when it is canonical', () => {
    for (let length = 0; length < 20; length++) {
      const bytes = randomBytes(length)
      expect(decodeBase64(bytes.toString('base64'))?.equals(bytes)).toBe(true)
    }
  })

  // As the decoder of a validator (the crate base64) words them.
  it.each([
    ['!', 'InvalidByte(0, 33)'],
    ['=', 'InvalidByte(0, 61)'],
    ['A', 'InvalidLength(1)'],
    ['AAAAA', 'InvalidLength(5)'],
    ['AAAA\n', 'InvalidByte(4, 10)'],
    ['someInvalidMessage', 'InvalidPadding'],
    ['AA', 'InvalidPadding'],
    ['AA=', 'InvalidPadding'],
    ['A===', 'InvalidByte(1, 61)'],
    ['AA=A', 'InvalidByte(2, 61)'],
    ['AA==AAAA', 'InvalidByte(2, 61)'],
    ['AAAA====', 'InvalidByte(4, 61)'],
    ['AB==', 'InvalidLastSymbol(1, 66)'],
    ['AAB=', 'InvalidLastSymbol(2, 66)'],
    ['AA-A', 'InvalidByte(2, 45)'],
    ['é===', 'InvalidByte(0, 195)'],
  ])('%j is refused with %s', (text, problem) => {
    expect(decodeBase64(text)).toBeNull()
    expect(base64Problem(text)).toBe(problem)
  })
})

it.each([
  ['0', "InvalidCharacter { character: '0', index: 0 }"],
  ['11!1', "InvalidCharacter { character: '!', index: 2 }"],
  ["1'", "InvalidCharacter { character: '\\'', index: 1 }"],
  ['1\n', "InvalidCharacter { character: '\\n', index: 1 }"],
  ['1\u0001', "InvalidCharacter { character: '\\u{1}', index: 1 }"],
  ['1é', 'NonAsciiCharacter { index: 1 }'],
])('base58 %j is refused with %s', (text, problem) => {
  expect(base58Problem(text)).toBe(problem)
})
