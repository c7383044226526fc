// Compresses bytes with zstd, in frames as a streaming encoder writes them. Thread: any.
// The module is ready once imported: it waits for its WebAssembly to compile.
//
//   magic 28 b5 2f fd | descriptor 00 (no content size) | window 58 (2 MiB) | blocks
import { compress, init } from '@bokuweb/zstd-wasm'
import { assert } from './assert.ts'

const LEVEL = 3
/** More than one account may hold; longer data becomes several frames, so memory has a bound. */
const FRAME_CONTENT_BYTES_MAX = 16 * 1024 * 1024
const HEAD = Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58)
const DESCRIPTOR_AT = 4
const SINGLE_SEGMENT = 0x20
/** Bytes of the content size by the descriptor's two highest bits, beside a single segment's. */
const SIZE_BYTES = [0, 2, 4, 8] as const

await init()

/** One frame, or several in a row for more than 16 MiB; decoders read them as one. */
export function compressZstd(data: Uint8Array): Buffer {
  const frames: Uint8Array[] = []
  for (let at = 0; at === 0 || at < data.length; at += FRAME_CONTENT_BYTES_MAX) {
    const frame = compress(data.subarray(at, at + FRAME_CONTENT_BYTES_MAX), LEVEL)
    frames.push(HEAD, frame.subarray(blocksAt(frame)))
  }
  return Buffer.concat(frames)
}

/**
 * Where the blocks begin. A frame of one segment has no window of its own: all its content is
 * the window, and the encoder of this level takes that form up to 2 MiB.
 */
function blocksAt(frame: Uint8Array): number {
  const descriptor = frame[DESCRIPTOR_AT]!
  const sizeBytes = SIZE_BYTES[descriptor >> 6]!
  const isSingleSegment = (descriptor & SINGLE_SEGMENT) !== 0
  if (isSingleSegment) return DESCRIPTOR_AT + 1 + Math.max(1, sizeBytes)
  assert(frame[DESCRIPTOR_AT + 1]! <= HEAD[DESCRIPTOR_AT + 1]!, 'a window of at most 2 MiB')
  return DESCRIPTOR_AT + 2 + sizeBytes
}
