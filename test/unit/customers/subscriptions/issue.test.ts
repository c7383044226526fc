import { crc32 } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import {
  digestOf,
  holdsToken,
  issueId,
  issuePassword,
  issueToken,
} from '../../../../src/customers/subscriptions/issue.ts'

const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

function base62Of(value: number): string {
  let text = ''
  for (let rest = value; text.length < 6; rest = Math.floor(rest / 62))
    text = base62[rest % 62] + text
  return text
}

describe('tokens', () => {
  it('are slu_, 32 base 62 characters and a 6-character checksum', () => {
    const tokens = new Set(Array.from({ length: 1000 }, issueToken))
    expect(tokens.size).toBe(1000)
    for (const token of tokens) {
      expect(token).toMatch(/^slu_[0-9A-Za-z]{38}$/)
      expect(token.slice(-6)).toBe(base62Of(crc32(token.slice(4, -6))))
    }
  })

  it('carry a checksum that other implementations of CRC-32 agree with', () => {
    // Computed with another implementation of CRC-32.
    expect(base62Of(crc32('0123456789ABCDEFGHIJKLMNOPQRSTUV'))).toBe('1ggZdL')
  })

  it('are found inside other text', () => {
    expect(holdsToken(`he wrote "${issueToken()}" into the chat`)).toBe(true)
    expect(holdsToken('slu_ is the prefix')).toBe(false)
  })
})

describe('passwords, ids and digests', () => {
  it('issues passwords of 32 base 62 characters', () => {
    expect(issuePassword()).toMatch(/^[0-9A-Za-z]{32}$/)
    expect(issuePassword()).not.toBe(issuePassword())
  })

  it('issues short ids without look-alike characters', () => {
    for (let count = 0; count < 1000; count++) expect(issueId()).toMatch(/^sub_[2-9a-hjkmnp-z]{8}$/)
  })

  it('digests with SHA-256', () => {
    expect(digestOf('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
  })
})
