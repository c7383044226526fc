import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bytesOfHex, hexOf, quantityOf, writeHex } from '../../../../src/chain/evm/hex.ts'
import {
  differenceU64,
  readU16,
  readU32,
  readU64,
  readU64Exact,
  readU256,
  writeU16,
  writeU32,
  writeU64,
  writeU64Exact,
  writeU256,
} from '../../../../src/chain/evm/words.ts'

describe('words', () => {
  test('written values are read back at any offset', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 9 }),
        fc.maxSafeNat(),
        fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
        (at, small, big) => {
          const bytes = new Uint8Array(64).fill(0xff)
          writeU16(bytes, at, small % 65_536)
          expect(readU16(bytes, at)).toBe(small % 65_536)
          writeU32(bytes, at, small % 2 ** 32)
          expect(readU32(bytes, at)).toBe(small % 2 ** 32)
          writeU64(bytes, at, small)
          expect(readU64(bytes, at)).toBe(small)
          writeU256(bytes, at, small)
          expect(readU256(bytes, at)).toBe(BigInt(small))
          writeU64Exact(bytes, at, big)
          expect(readU64Exact(bytes, at)).toBe(big)
          expect(bytes[at + 32]).toBe(0xff)
        },
      ),
    )
  })

  test('the difference of two nanosecond times is exact, also when negative', () => {
    const a = new Uint8Array(8)
    const b = new Uint8Array(8)
    const base = 1_756_499_174_369_152_680n
    for (const step of [0n, 1n, -1n, 4_294_967_296n, -4_294_967_297n, 245_520_362n]) {
      writeU64Exact(a, 0, base + step)
      writeU64Exact(b, 0, base)
      expect(differenceU64(a, 0, b, 0)).toBe(Number(step))
    }
  })

  test('a u256 is four limbs, low limb first', () => {
    const bytes = new Uint8Array(32)
    bytes[0] = 1
    bytes[8] = 2
    bytes[31] = 0x80
    expect(readU256(bytes, 0)).toBe(1n + (2n << 64n) + (0x80n << 248n))
  })
})

describe('hex', () => {
  test('text and bytes agree with each other', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
        const text = hexOf(bytes)
        expect(text).toBe(`0x${Buffer.from(bytes).toString('hex')}`)
        expect(bytesOfHex(text)).toEqual(bytes)
        const target = new Uint8Array(text.length + 2)
        expect(writeHex(target, 1, bytes, { at: 0, length: bytes.length })).toBe(1 + text.length)
        expect(Buffer.from(target.subarray(1, -1)).toString()).toBe(text)
      }),
    )
  })

  test('writes a range of the bytes', () => {
    expect(hexOf(Uint8Array.of(1, 2, 0xab, 4), 1, 2)).toBe('0x02ab')
    expect(quantityOf(0)).toBe('0x0')
    expect(quantityOf(20143n)).toBe('0x4eaf')
  })

  test('rejects text that is not hex', () => {
    expect(bytesOfHex('0x1')).toBeNull()
    expect(bytesOfHex('zz')).toBeNull()
    expect(bytesOfHex('')).toEqual(new Uint8Array(0))
  })
})
