import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { compressFrames } from '../../../../src/base/transport/grpc-stream.ts'
import { framed, messagesIn } from '../../../testkit/raw-grpc.ts'

const text = (bytes: number) =>
  Buffer.from('Program log: Instruction: Transfer '.repeat(bytes / 35))

describe('compressed frames', () => {
  it.each(['gzip', 'zstd'] as const)('hold the same messages in %s', (encoding) => {
    const messages = [
      text(70),
      text(700),
      randomBytes(700),
      text(100_000),
      text(35),
      text(5_600_000),
    ]
    const frames = Buffer.concat(messages.map((message) => framed(message)))
    const whole = compressFrames([{ bytes: frames }], encoding)
    // Short, random and very long ones stay as they are.
    expect(messagesIn(whole, encoding).map(({ flag }) => flag)).toEqual([0, 1, 0, 1, 0, 0])
    const read = messagesIn(whole, encoding).map(({ message }) => framed(message))
    // Compared by hand: the matcher takes minutes for megabytes.
    expect(Buffer.concat(read).equals(frames)).toBe(true)
    // A frame may be split over several buffers.
    const split = [frames.subarray(0, 300), frames.subarray(300, 50_000), frames.subarray(50_000)]
    expect(
      compressFrames(
        split.map((bytes) => ({ bytes })),
        encoding,
      ).equals(whole),
    ).toBe(true)
  })
})
