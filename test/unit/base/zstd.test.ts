import { randomBytes } from 'node:crypto'
import { decompress } from 'fzstd'
import { describe, expect, it } from 'vitest'
import { compressZstd } from '../../../src/base/zstd.ts'

const MiB = 1024 * 1024
const contents: Readonly<Record<string, (length: number) => Buffer>> = {
  random: randomBytes,
  zero: (length) => Buffer.alloc(length),
  repeating: (length) => Buffer.from(Uint8Array.from({ length }, (_, at) => (at * 7) % 251)),
}

describe('zstd compression', () => {
  it('writes the frame of a streaming encoder: no content size, a window of 2 MiB', () => {
    expect(compressZstd(Buffer.from('test data')).toString('base64')).toBe(
      'KLUv/QBYSQAAdGVzdCBkYXRh',
    )
    expect(compressZstd(new Uint8Array()).toString('base64')).toBe('KLUv/QBYAQAA')
  })

  // Lengths on both sides of each form of the frame's header, of a block and of the window.
  it.each([0, 1, 255, 256, 65_791, 65_792, 131_073, 2 * MiB, 2 * MiB + 1, 10 * MiB, 16 * MiB + 1])(
    'writes %i bytes so that a decoder gets them back',
    (length) => {
      for (const make of Object.values(contents)) {
        const data = make(length)
        expect(Buffer.compare(decompress(compressZstd(data)), data)).toBe(0)
      }
    },
  )

  it('makes compressible data small', () => {
    expect(compressZstd(Buffer.alloc(10 * MiB)).length).toBeLessThan(1000)
    expect(compressZstd(new Uint8Array(165)).length).toBeLessThan(30)
  })
})
