// Encodes a zstd frame of raw blocks: valid zstd, not compressed. Thread: any (pure).
// For `base64+zstd`; Node 20 has no zstd compressor.
//
//   magic 28 b5 2f fd | descriptor a0 (one segment, 4-byte size) | size u32
//   | blocks: header u24 = last | raw 0 << 1 | size << 3, then the bytes

const MAGIC = 0xfd2fb528
const ONE_SEGMENT_SIZE_4 = 0xa0
const FRAME_HEAD_BYTES = 9
const BLOCK_HEAD_BYTES = 3
const BLOCK_BYTES_MAX = 131_072

export function storeZstd(data: Uint8Array): Buffer {
  const blocks = Math.max(1, Math.ceil(data.length / BLOCK_BYTES_MAX))
  const frame = Buffer.allocUnsafe(FRAME_HEAD_BYTES + blocks * BLOCK_HEAD_BYTES + data.length)
  frame.writeUInt32LE(MAGIC, 0)
  frame[4] = ONE_SEGMENT_SIZE_4
  frame.writeUInt32LE(data.length, 5)
  let at = FRAME_HEAD_BYTES
  for (let block = 0; block < blocks; block++) {
    const start = block * BLOCK_BYTES_MAX
    const size = Math.min(BLOCK_BYTES_MAX, data.length - start)
    const isLast = block === blocks - 1
    frame.writeUIntLE((size << 3) | (isLast ? 1 : 0), at, BLOCK_HEAD_BYTES)
    frame.set(data.subarray(start, start + size), at + BLOCK_HEAD_BYTES)
    at += BLOCK_HEAD_BYTES + size
  }
  return frame
}
