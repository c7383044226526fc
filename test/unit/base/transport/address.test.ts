import { describe, expect, it } from 'vitest'
import { Addresses } from '../../../../src/base/transport/address.ts'

function binary(...bytes: number[]): ArrayBuffer {
  return new Uint8Array(bytes).buffer
}

const loopback6 = binary(...new Array(15).fill(0), 1)
const mapped = binary(...new Array(10).fill(0), 0xff, 0xff, 10, 1, 2, 3)

describe('Addresses', () => {
  it('formats addresses canonically, and IPv4-mapped IPv6 as IPv4', () => {
    const addresses = new Addresses([])
    expect(addresses.clientOf(binary(127, 0, 0, 1), '')).toBe('127.0.0.1')
    expect(addresses.clientOf(binary(255, 255, 255, 255), '')).toBe('255.255.255.255')
    expect(addresses.clientOf(loopback6, '')).toBe('::1')
    expect(addresses.clientOf(mapped, '')).toBe('10.1.2.3')
  })

  it('gives none of a connection that is gone, whatever it forwards', () => {
    for (const proxies of [[], ['10.0.0.0/8']])
      expect(new Addresses(proxies).clientOf(binary(), '1.2.3.4')).toBe('')
  })

  it('ignores X-Forwarded-For without trusted proxies', () => {
    expect(new Addresses([]).clientOf(binary(10, 0, 0, 1), '1.2.3.4')).toBe('10.0.0.1')
  })

  it('takes the rightmost entry that is not a trusted proxy', () => {
    const addresses = new Addresses(['10.0.0.0/8'])
    const from = (forwarded: string) => addresses.clientOf(binary(10, 0, 0, 1), forwarded)
    expect(from('6.6.6.6, 1.2.3.4, 10.9.9.9')).toBe('1.2.3.4')
    expect(from('6.6.6.6,2001:db8::1')).toBe('2001:db8::1')
    expect(from('6.6.6.6, nonsense, 10.9.9.9')).toBe('10.9.9.9')
    expect(from('')).toBe('10.0.0.1')
    expect(addresses.clientOf(binary(9, 9, 9, 9), '1.2.3.4')).toBe('9.9.9.9')
  })

  it('bounds its cache and stays correct', () => {
    const addresses = new Addresses([])
    for (let index = 0; index < 10_000; index++)
      expect(addresses.clientOf(binary(1, 2, index >> 8, index & 255), '')).toBe(
        `1.2.${index >> 8}.${index & 255}`,
      )
  })
})
