import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  digestOf,
  holdsToken,
  issueId,
  issuePassword,
  issueToken,
  isToken,
} from '../../../src/subscriptions/issue.ts'

describe('tokens', () => {
  it('are slu_, 32 base 62 characters and a 6-character checksum', () => {
    const tokens = new Set(Array.from({ length: 1000 }, issueToken))
    expect(tokens.size).toBe(1000)
    for (const token of tokens) {
      expect(token).toMatch(/^slu_[0-9A-Za-z]{38}$/)
      expect(isToken(token)).toBe(true)
    }
  })

  it('carry the CRC-32 of their 32 characters', () => {
    // Worked out apart from this code, with another implementation of CRC-32.
    expect(isToken('slu_0123456789ABCDEFGHIJKLMNOPQRSTUV1ggZdL')).toBe(true)
    expect(isToken('slu_0123456789ABCDEFGHIJKLMNOPQRSTUV000000')).toBe(false)
  })

  it('show every single-character typo', () => {
    const chars = [...'0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz']
    const position = fc.integer({ min: 4, max: 41 })
    fc.assert(
      fc.property(position, fc.constantFrom(...chars), (at, char) => {
        const token = issueToken()
        const typo = token.slice(0, at) + char + token.slice(at + 1)
        expect(isToken(typo)).toBe(typo === token)
      }),
    )
  })

  it('show two neighbours swapped', () => {
    fc.assert(
      fc.property(fc.integer({ min: 4, max: 40 }), (at) => {
        const token = issueToken()
        const swapped = token.slice(0, at) + token[at + 1] + token[at] + token.slice(at + 2)
        expect(isToken(swapped)).toBe(swapped === token)
      }),
    )
  })

  it('are told from noise without throwing', () => {
    fc.assert(fc.property(fc.string({ maxLength: 60 }), (text) => void isToken(text)))
  })

  it('are found inside other text', () => {
    expect(holdsToken(`he wrote "${issueToken()}" into the chat`)).toBe(true)
    expect(holdsToken('slu_ is the prefix')).toBe(false)
  })
})

describe('other secrets and ids', () => {
  it('passwords are 32 base 62 characters', () => {
    expect(issuePassword()).toMatch(/^[0-9A-Za-z]{32}$/)
    expect(issuePassword()).not.toBe(issuePassword())
  })

  it('ids are short and free of look-alikes', () => {
    for (let count = 0; count < 1000; count++) expect(issueId()).toMatch(/^sub_[2-9a-hjkmnp-z]{8}$/)
  })

  it('digests are SHA-256', () => {
    expect(digestOf('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
  })
})
