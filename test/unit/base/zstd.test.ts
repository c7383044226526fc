import { randomBytes } from 'node:crypto'
import { decompress } from 'fzstd'
import { describe, expect, it } from 'vitest'
import { compressZstd, decompressZstd } from '../../../src/base/zstd.ts'
import { caseCount } from '../../testkit/case-count.ts'

const MiB = 1024 * 1024
const contents: Readonly<Record<string, (length: number) => Buffer>> = {
  random: randomBytes,
  zero: (length) => Buffer.alloc(length),
  repeating: (length) =>
    Buffer.alloc(
      length,
      Uint8Array.from({ length: 251 }, (_, at) => (at * 7) % 251),
    ),
}

describe('zstd compression', () => {
  it('writes the frame of a streaming encoder: no content size, a window of 2 MiB', () => {
    expect(compressZstd(Buffer.from('test data')).toString('base64')).toBe(
      'KLUv/QBYSQAAdGVzdCBkYXRh',
    )
    expect(compressZstd(new Uint8Array()).toString('base64')).toBe('KLUv/QBYAQAA')
  })

  // Lengths on both sides of each form of the frame's header, of a block and of the window.
  it.each([
    0,
    1,
    255,
    256,
    65_791,
    65_792,
    131_073,
    2 * MiB,
    2 * MiB + 1,
    caseCount(3, 16) * MiB + 1,
  ])('writes %i bytes so that a decoder gets them back', (length) => {
    for (const make of Object.values(contents)) {
      const data = make(length)
      expect(Buffer.compare(decompress(compressZstd(data)), data)).toBe(0)
    }
  })

  it('makes compressible data small', () => {
    expect(compressZstd(Buffer.alloc(10 * MiB)).length).toBeLessThan(1000)
    expect(compressZstd(new Uint8Array(165)).length).toBeLessThan(30)
  })
})

describe('zstd decompression', () => {
  it('reads what the compression wrote, and frames that declare their size', () => {
    for (const length of [0, 1, 300, 70_000, 3 * MiB]) {
      const data = randomBytes(length)
      const outcome = decompressZstd(compressZstd(data), 4 * MiB) as Buffer
      expect(data.equals(outcome)).toBe(true)
    }
    const declared = Buffer.from('28b52ffd200949000074657374206461746101', 'hex').subarray(0, 18)
    expect(String(decompressZstd(declared, 9))).toBe('test data')
    expect(decompressZstd(declared, 8)).toBe('too-large')
  })

  it('stops at the bound, whatever the frame declares', () => {
    const bomb = compressZstd(Buffer.alloc(16 * MiB))
    expect(bomb.length).toBeLessThan(2_000)
    expect(decompressZstd(bomb, 16 * MiB)).toHaveLength(16 * MiB)
    expect(decompressZstd(bomb, 16 * MiB - 1)).toBe('too-large')
    const claims = Buffer.from('28b52ffde0ffffffffffffffff0100', 'hex')
    expect(decompressZstd(claims, 4 * MiB)).toBe('too-large')
    const twice = Buffer.concat([bomb, bomb])
    expect(decompressZstd(twice, 20 * MiB)).toBe('too-large')
  })

  it('refuses truncated and random bytes, and works on', () => {
    const frame = compressZstd(contents.repeating!(5_000))
    for (let length = 0; length < frame.length; length++)
      expect(decompressZstd(frame.subarray(0, length), MiB)).toBe('damaged')
    for (let round = 0; round < 500; round++) {
      const noise = Buffer.concat([frame.subarray(0, 4), randomBytes(round)])
      const outcome = decompressZstd(noise, 1_000)
      if (Buffer.isBuffer(outcome)) expect(outcome.length).toBeLessThanOrEqual(1_000)
    }
    expect(decompressZstd(frame, 5_000)).toHaveLength(5_000)
  })
})
