// Compresses bytes with zstd, in frames as a streaming encoder writes them, and decompresses
// within a bound.
// The module is ready once imported: it waits for its WebAssembly to compile.
//
//   magic 28 b5 2f fd | descriptor 00 (no content size) | window 58 (2 MiB) | blocks
import { compress, decompress, init } from '@bokuweb/zstd-wasm'
import { assert } from './errors.ts'

const LEVEL = 3
/** More than one account may hold; longer data becomes several frames, so memory has a bound. */
const FRAME_CONTENT_BYTES_MAX = 16 * 1024 * 1024
const HEAD = Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58)
const DESCRIPTOR_AT = 4
const SINGLE_SEGMENT = 0x20
/** Bytes of the content size by the descriptor's two highest bits, beside a single segment's. */
const SIZE_BYTES = [0, 2, 4, 8] as const
/** Bytes of the dictionary's id by the descriptor's two lowest bits. */
const DICTIONARY_BYTES = [0, 1, 2, 4] as const
/** How the decoder's error ends when the content does not fit (ZSTD_error_dstSize_tooSmall). */
const CODE_OUTPUT_TOO_SMALL = 'code -70'

await init()

/** One frame, or several in a row for more than 16 MiB; decoders read them as one. */
export function compressZstd(data: Uint8Array, level = LEVEL): Buffer {
  const frames: Uint8Array[] = []
  for (let at = 0; at === 0 || at < data.length; at += FRAME_CONTENT_BYTES_MAX) {
    const frame = compress(data.subarray(at, at + FRAME_CONTENT_BYTES_MAX), level)
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

/**
 * The content of one frame of at most `bytesMax`. The decoder writes into memory of that size, or
 * of the size that the frame declares, so no frame makes it allocate or write more.
 */
export function decompressZstd(
  data: Uint8Array,
  bytesMax: number,
): Buffer | 'too-large' | 'damaged' {
  const declared = contentBytes(data)
  if (declared === 'damaged') return declared
  if (declared !== null && declared > bytesMax) return 'too-large'
  try {
    const content = decompress(data, { defaultHeapSize: bytesMax })
    return Buffer.from(content.buffer, content.byteOffset, content.length)
  } catch (error) {
    return String(error).endsWith(CODE_OUTPUT_TOO_SMALL) ? 'too-large' : 'damaged'
  }
}

/** The content size of a frame's header; null when it has none. */
function contentBytes(data: Uint8Array): number | null | 'damaged' {
  const frame = Buffer.from(data.buffer, data.byteOffset, data.length)
  if (
    frame.length < HEAD.length ||
    !HEAD.subarray(0, DESCRIPTOR_AT).every((byte, at) => frame[at] === byte)
  )
    return 'damaged'
  const descriptor = frame[DESCRIPTOR_AT]!
  const isSingleSegment = (descriptor & SINGLE_SEGMENT) !== 0
  const sizeBytes = Math.max(isSingleSegment ? 1 : 0, SIZE_BYTES[descriptor >> 6]!)
  if (sizeBytes === 0) return null
  const at = DESCRIPTOR_AT + (isSingleSegment ? 1 : 2) + DICTIONARY_BYTES[descriptor & 3]!
  if (frame.length < at + sizeBytes) return 'damaged'
  if (sizeBytes === 8) return Number(frame.readBigUInt64LE(at))
  // A size of two bytes begins where one of one byte ends.
  return frame.readUIntLE(at, sizeBytes) + (sizeBytes === 2 ? 256 : 0)
}
