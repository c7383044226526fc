// Formats of bytes: zstd beside fzstd, and frames of msgpack between processes.
import { ok } from 'node:assert'
import { PassThrough } from 'node:stream'
import { decompress } from 'fzstd'
import { FrameLink, FrameSplitter, pack } from '../../../src/base/threads/frames.ts'
import { compressZstd, decompressZstd } from '../../../src/base/zstd.ts'
import { pieces, same, type Target, text } from '../target.ts'

const contentBytesMax = 16 * 1024

export const zstd: Target = {
  words: [Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd), Uint8Array.of(0x50, 0x2a, 0x4d, 0x18)],
  seeds: () => [
    compressZstd(text('hello hello hello hello')),
    compressZstd(new Uint8Array(0)),
    compressZstd(Buffer.alloc(3000, 'abcdefghij')),
    // One segment with its size: 5 bytes, raw.
    Buffer.from('28b52ffd20052900006162636465', 'hex'),
  ],
  run(input) {
    const content = decompressZstd(input, contentBytesMax)
    if (typeof content === 'string') return
    ok(content.length <= contentBytesMax, 'within its bound')
    same(content, byFzstd(input) ?? content, 'as fzstd')
  },
  compare(input) {
    same(decompressZstd(compressZstd(input), input.length + 1), input, 'compressed and back')
  },
}

/** Null where a block is longer than its window: libzstd reads it, and fzstd has no room for it. */
function byFzstd(input: Buffer): Uint8Array | null {
  try {
    return decompress(input)
  } catch (error) {
    if (error instanceof RangeError) return null
    throw error
  }
}

export const frames: Target = {
  words: [Uint8Array.of(0xff, 0xff, 0xff, 0xff), Uint8Array.of(0xdf), Uint8Array.of(0xdd)],
  seeds: () => [
    framed([pack({ id: 1, call: 'x', input: [1, 'a', null, Buffer.of(1, 2)] })]),
    framed([pack({ event: 'ready', data: null }), pack([1.5, -1, 2 ** 40, 'text'])]),
  ],
  run(input) {
    const whole = framesOf([input])
    same(framesOf(pieces(input)), whole, 'in pieces')
    const pipe = new PassThrough()
    pipe.on('error', () => {})
    let values = 0
    new FrameLink(pipe, () => values++)
    pipe.emit('data', input)
    ok(values <= whole.length, 'a value for each frame at most')
    pipe.destroy()
  },
}

function framed(bodies: readonly Buffer[]): Buffer {
  return Buffer.concat(
    bodies.flatMap((body) => {
      const length = Buffer.alloc(4)
      length.writeUInt32LE(body.length)
      return [length, body]
    }),
  )
}

function framesOf(chunks: readonly Buffer[]): unknown[] {
  const found: unknown[] = []
  const splitter = new FrameSplitter((frame) => found.push(Buffer.from(frame)))
  for (const chunk of chunks) if (!splitter.push(chunk)) return [...found, 'too long']
  return found
}
