import { describe, expect, it } from 'vitest'
import { Cuckoo, SipHash } from '../../../../src/streams/geyser/filter-set.ts'
import { buildCuckoo } from '../../../testkit/cuckoo-builder.ts'
import { randomOf } from '../../../testkit/synthetic-solana.ts'

function hex64(hash: SipHash): string {
  const half = (value: number) => (value >>> 0).toString(16).padStart(8, '0')
  return half(hash.high) + half(hash.low)
}

describe('SipHash-2-4', () => {
  // The published vectors: key 00..0f, inputs of growing length 00 01 02 ….
  it('agrees with the vectors of its authors', () => {
    const sip = new SipHash(
      { low: 0x03020100, high: 0x07060504 },
      { low: 0x0b0a0908, high: 0x0f0e0d0c },
    )
    const results = [0, 1, 7, 8, 15].map((length) => {
      const input = Buffer.alloc((length & ~7) + 8)
      for (let at = 0; at < length; at++) input[at] = at
      input[input.length - 1] = length
      sip.update(new Int32Array(Uint8Array.from(input).buffer))
      return hex64(sip)
    })
    expect(results).toEqual([
      '726fdb47dd0e0e31',
      '74f839c593dc67fd',
      'ab0200f58b01d137',
      '93f5f5799a932462',
      'a129ca6149be45e5',
    ])
  })
})

describe('a cuckoo filter', () => {
  it('takes every key of its set and hardly any other', () => {
    const random = randomOf(3)
    const keys = Array.from({ length: 3_000 }, () =>
      Uint8Array.from({ length: 32 }, () => Math.floor(random() * 256)),
    )
    const set = keys.slice(0, 1_000)
    const seed = 0x796c6c7773746e21n
    const built = buildCuckoo(set, seed)
    const cuckoo = new Cuckoo(built.data, {
      low: Number(seed & 0xffffffffn),
      high: Number(seed >> 32n),
    })
    expect(set.every((key) => cuckoo.has(key))).toBe(true)
    const others = keys.slice(1_000).filter((key) => cuckoo.has(key))
    expect(others.length).toBeLessThan(20)
  })

  it('that is empty takes nothing', () => {
    expect(new Cuckoo(Buffer.alloc(8), { low: 1, high: 2 }).has(new Uint8Array(32))).toBe(false)
  })
})
