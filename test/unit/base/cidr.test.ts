import { BlockList, isIP } from 'node:net'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  clientAddress,
  contains,
  formatAddress,
  formatCidr,
  parseAddress,
  parseCidr,
} from '../../../src/base/cidr.ts'

const hexDigits = '0123456789abcdefABCDEF:.%/[]'
const noise = fc.string({ unit: fc.constantFrom(...hexDigits), maxLength: 50 })

describe('addresses', () => {
  it.each([
    ['127.0.0.1', '127.0.0.1'],
    ['255.255.255.255', '255.255.255.255'],
    ['::', '::'],
    ['::1', '::1'],
    ['2001:DB8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
    ['fe80:0000:0000:0000:0202:b3ff:fe1e:8329', 'fe80::202:b3ff:fe1e:8329'],
    ['1:2:3:4:5:6:7:8', '1:2:3:4:5:6:7:8'],
    ['1:0:3:4:5:6:7:8', '1:0:3:4:5:6:7:8'],
    ['::ffff:10.0.0.1', '10.0.0.1'],
    ['0000:0000:0000:0000:0000:ffff:7f00:0001', '127.0.0.1'],
    ['64:ff9b::1.2.3.4', '64:ff9b::102:304'],
  ])('reads %s as %s', (text, written) => {
    expect(formatAddress(parseAddress(text)!)).toBe(written)
  })

  it.each([
    '',
    '1.2.3',
    '1.2.3.4.5',
    '256.1.1.1',
    '01.2.3.4',
    '1.2.3.4 ',
    '0x7f.1.1.1',
    ':',
    ':::',
    '1::2::3',
    '1:2:3:4:5:6:7',
    '1:2:3:4:5:6:7:8:9',
    '1:2:3:4:5:6:7:8::',
    '12345::',
    'fe80::1%eth0',
    '1.2.3.4::',
    '::1.2.3',
    'localhost',
  ])('refuses %j', (text) => {
    expect(parseAddress(text)).toBeNull()
  })

  it('agrees with the runtime on what is an address, and never throws', () => {
    fc.assert(
      fc.property(fc.oneof(noise, fc.ipV4(), fc.ipV6(), fc.string()), (text) => {
        const isOne = isIP(text) !== 0 && !text.includes('%')
        expect(parseAddress(text) !== null).toBe(isOne)
      }),
      { numRuns: 2000 },
    )
  })

  it('formats each address in one canonical form', () => {
    fc.assert(
      fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), (text) => {
        const written = formatAddress(parseAddress(text)!)
        expect(formatAddress(parseAddress(written)!)).toBe(written)
      }),
    )
  })
})

describe('CIDRs', () => {
  it.each([
    ['10.0.0.0/8', '10.0.0.0/8'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['192.168.1.7', '192.168.1.7/32'],
    ['2001:DB8::/32', '2001:db8::/32'],
    ['::1', '::1/128'],
  ])('reads %s as %s', (text, written) => {
    expect(formatCidr(parseCidr(text)!)).toBe(written)
  })

  it.each(['10.0.0.1/8', '10.0.0.0/33', '10.0.0.0/-1', '10.0.0.0/', '::/129', '10/8', '::1/0x1'])(
    'refuses %j',
    (text) => {
      expect(parseCidr(text)).toBeNull()
    },
  )

  it('does not match an address of the other family', () => {
    expect(contains(parseCidr('::/0')!, parseAddress('10.0.0.1')!)).toBe(false)
    expect(contains(parseCidr('0.0.0.0/0')!, parseAddress('::1')!)).toBe(false)
    expect(contains(parseCidr('10.0.0.0/8')!, parseAddress('::ffff:10.9.9.9')!)).toBe(true)
  })

  it('agrees with the runtime on what a CIDR contains', () => {
    const v4 = fc.tuple(fc.integer({ min: 0, max: 0xffffffff }), fc.integer({ min: 0, max: 32 }))
    fc.assert(
      fc.property(v4, fc.integer({ min: 0, max: 0xffffffff }), ([word, bits], flips) => {
        const mask = bits === 0 ? 0 : (0xffffffff << (32 - bits)) >>> 0
        const network = formatV4((word & mask) >>> 0)
        const probe = formatV4((word ^ (flips >>> (flips % 32))) >>> 0)
        const list = new BlockList()
        list.addSubnet(network, bits, 'ipv4')
        const cidr = parseCidr(`${network}/${bits}`)!
        expect(contains(cidr, parseAddress(probe)!)).toBe(list.check(probe, 'ipv4'))
      }),
    )
  })

  it('refuses random text without throwing', () => {
    fc.assert(
      fc.property(fc.oneof(noise, fc.string()), (text) => {
        const cidr = parseCidr(text)
        if (cidr !== null) expect(parseCidr(formatCidr(cidr))).toEqual(cidr)
      }),
      { numRuns: 2000 },
    )
  })
})

describe('the client address from trusted proxies', () => {
  const trusted = ['10.0.0.0/8', '2001:db8::/32'].map((text) => parseCidr(text)!)

  it('is the peer when no proxy is trusted, whatever the header contains', () => {
    expect(clientAddress('10.0.0.1', '1.2.3.4', [])).toBe('10.0.0.1')
  })

  it('is the peer when the peer is not a trusted proxy', () => {
    expect(clientAddress('8.8.8.8', '1.2.3.4', trusted)).toBe('8.8.8.8')
  })

  it.each([
    ['1.2.3.4', '1.2.3.4'],
    ['6.6.6.6, 1.2.3.4, 10.0.0.7', '1.2.3.4'],
    ['6.6.6.6,1.2.3.4:5555', '1.2.3.4'],
    ['[2001:db9::1]:443, 2001:db8::5', '2001:db9::1'],
    ['10.0.0.8, 10.0.0.7', '10.0.0.8'],
    ['1.2.3.4, unknown, 10.0.0.7', '10.0.0.7'],
    ['', '10.0.0.1'],
    [undefined, '10.0.0.1'],
  ])('is the rightmost entry not trusted: %s gives %s', (header, client) => {
    expect(clientAddress('10.0.0.1', header, trusted)).toBe(client)
    expect(clientAddress('::ffff:10.0.0.1', header, trusted)).toBe(client)
  })

  it('never throws', () => {
    fc.assert(
      fc.property(fc.string(), fc.oneof(noise, fc.string()), (peer, header) => {
        clientAddress(peer, header, trusted)
        clientAddress('10.0.0.1', header, trusted)
      }),
    )
  })
})

function formatV4(word: number): string {
  return [24, 16, 8, 0].map((shift) => (word >>> shift) & 255).join('.')
}
