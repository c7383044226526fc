// Reads and writes little-endian words in bytes, without an object per value.
// Works on private and shared memory. Callers check bounds; a read past the end
// returns a meaningless number and never throws, because hot loops check lengths once per record.

const two32 = 0x1_0000_0000

export function readU16(bytes: Uint8Array, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8)
}

export function readU32(bytes: Uint8Array, at: number): number {
  return (
    (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0
  )
}

/** Exact below 2^53, which sequence numbers, offsets and block numbers are in practice. */
export function readU64(bytes: Uint8Array, at: number): number {
  return readU32(bytes, at) + readU32(bytes, at + 4) * two32
}

/** Always exact: times in nanoseconds exceed 2^53. */
export function readU64Exact(bytes: Uint8Array, at: number): bigint {
  return (BigInt(readU32(bytes, at + 4)) << 32n) | BigInt(readU32(bytes, at))
}

/** Four u64 limbs, low limb first. */
export function readU256(bytes: Uint8Array, at: number): bigint {
  let value = 0n
  for (let limb = 3; limb >= 0; limb--) value = (value << 64n) | readU64Exact(bytes, at + limb * 8)
  return value
}

/** `a - b` of two u64 in bytes; exact while the difference is below 2^53, negative when a < b. */
export function differenceU64(a: Uint8Array, aAt: number, b: Uint8Array, bAt: number): number {
  const high = readU32(a, aAt + 4) - readU32(b, bAt + 4)
  return high * two32 + (readU32(a, aAt) - readU32(b, bAt))
}

export function writeU16(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value
  bytes[at + 1] = value >>> 8
}

export function writeU32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value
  bytes[at + 1] = value >>> 8
  bytes[at + 2] = value >>> 16
  bytes[at + 3] = value >>> 24
}

/** `value` is a non-negative integer below 2^53. */
export function writeU64(bytes: Uint8Array, at: number, value: number): void {
  writeU32(bytes, at, value % two32)
  writeU32(bytes, at + 4, Math.floor(value / two32))
}

export function writeU64Exact(bytes: Uint8Array, at: number, value: bigint): void {
  writeU32(bytes, at, Number(value & 0xffff_ffffn))
  writeU32(bytes, at + 4, Number((value >> 32n) & 0xffff_ffffn))
}

/** Four u64 limbs, low limb first; `value` is below 2^53. */
export function writeU256(bytes: Uint8Array, at: number, value: number): void {
  writeU64(bytes, at, value)
  bytes.fill(0, at + 8, at + 32)
}
