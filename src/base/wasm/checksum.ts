// Sums of bytes in this module's memory, for ../checksum.ts. Any thread; each has its own memory.
//
//   memory   | 8 sums a | 8 sums b | … | pieceAt: a piece of the bytes, padded with zeros |
//
// Fletcher's two sums, of 32-bit words in 64 bits as ZFS has them, in 8 lanes: a += word, b += a.
// 64 bits do not overflow within a record, so that no two changed words of a lane cancel out.

export const pieceAt: u32 = 1024
const LANES: u32 = 8
const STRIPE: u32 = 4 * LANES
const SUMS: u32 = 16 * LANES

export function begin(): void {
  memory.fill(0, 0, SUMS)
}

/** Adds the piece; only the last one may be no multiple of 32 bytes. */
export function add(bytes: u32): void {
  const rest = bytes % STRIPE
  if (rest > 0) memory.fill(pieceAt + bytes, 0, STRIPE - rest)
  let a0 = v128.load(0)
  let a1 = v128.load(16)
  let a2 = v128.load(32)
  let a3 = v128.load(48)
  let b0 = v128.load(64)
  let b1 = v128.load(80)
  let b2 = v128.load(96)
  let b3 = v128.load(112)
  const end = pieceAt + bytes
  for (let at = pieceAt; at < end; at += STRIPE) {
    const left = v128.load(at)
    const right = v128.load(at, 16)
    a0 = i64x2.add(a0, i64x2.extend_low_i32x4_u(left))
    a1 = i64x2.add(a1, i64x2.extend_high_i32x4_u(left))
    a2 = i64x2.add(a2, i64x2.extend_low_i32x4_u(right))
    a3 = i64x2.add(a3, i64x2.extend_high_i32x4_u(right))
    b0 = i64x2.add(b0, a0)
    b1 = i64x2.add(b1, a1)
    b2 = i64x2.add(b2, a2)
    b3 = i64x2.add(b3, a3)
  }
  v128.store(0, a0)
  v128.store(16, a1)
  v128.store(32, a2)
  v128.store(48, a3)
  v128.store(64, b0)
  v128.store(80, b1)
  v128.store(96, b2)
  v128.store(112, b3)
}

/** Folds the sums, and what the padding hides: how many bytes there were. */
export function finish(bytes: u32): u32 {
  let hash: u64 = bytes
  for (let at: u32 = 0; at < SUMS; at += 8) {
    // Each step can be undone: what differs in one sum stays different.
    hash = (hash ^ load<u64>(at)) * 0x9e3779b97f4a7c15
    hash ^= hash >> 32
  }
  return hash as u32
}
