// Compares and hashes keys in shared memory. Thread: analysis worker.
// Keys are compared and hashed in place: an address is 20 bytes, a storage slot 32.
//
// The hash is NH: a sum of products of key words, each word first added to a secret one. For any
// two different keys the chance of an equal hash is 2^-32 over the choice of the secret, so that
// an attacker who chooses addresses and slots cannot cause collisions. No result depends on it.
//
//   secret   14 u32: words 0 to 5 for an address (20 bytes and 4 of zero), 6 to 13 for a slot

export const ADDRESS_BYTES: u32 = 20
export const SLOT_BYTES: u32 = 32
/** The largest block in transactions. */
export const TXNS_MAX: u32 = 1 << 17

let secret0: u32 = 0
let secret1: u32 = 0
let secret2: u32 = 0
let secret3: u32 = 0
let secret4: u32 = 0
let secret5: u32 = 0
let secret6: u32 = 0
let secret7: u32 = 0
let secret8: u32 = 0
let secret9: u32 = 0
let secret10: u32 = 0
let secret11: u32 = 0
let secret12: u32 = 0
let secret13: u32 = 0

/** Reads the process's secret; it must be the same in every instance on one memory. */
export function readSecret(at: u32): void {
  secret0 = load<u32>(at)
  secret1 = load<u32>(at, 4)
  secret2 = load<u32>(at, 8)
  secret3 = load<u32>(at, 12)
  secret4 = load<u32>(at, 16)
  secret5 = load<u32>(at, 20)
  secret6 = load<u32>(at, 24)
  secret7 = load<u32>(at, 28)
  secret8 = load<u32>(at, 32)
  secret9 = load<u32>(at, 36)
  secret10 = load<u32>(at, 40)
  secret11 = load<u32>(at, 44)
  secret12 = load<u32>(at, 48)
  secret13 = load<u32>(at, 52)
}

// @ts-ignore: decorator
@inline
function product(a: u32, b: u32): u64 {
  return <u64>a * <u64>b
}

/** The sum over an address; `finish` turns it into a hash. */
// @ts-ignore: decorator
@inline
export function sumAddress(at: u32): u64 {
  return (
    product(load<u32>(at) + secret0, load<u32>(at, 4) + secret1) +
    product(load<u32>(at, 8) + secret2, load<u32>(at, 12) + secret3) +
    product(load<u32>(at, 16) + secret4, secret5)
  )
}

/** The sum over a storage slot's 32 bytes; added to its address's it covers the whole key. */
// @ts-ignore: decorator
@inline
export function sumSlot(at: u32): u64 {
  return (
    product(load<u32>(at) + secret6, load<u32>(at, 4) + secret7) +
    product(load<u32>(at, 8) + secret8, load<u32>(at, 12) + secret9) +
    product(load<u32>(at, 16) + secret10, load<u32>(at, 20) + secret11) +
    product(load<u32>(at, 24) + secret12, load<u32>(at, 28) + secret13)
  )
}

/** Mixes the 64 bits of a sum into 32, so that low bits may index a table. */
// @ts-ignore: decorator
@inline
export function finish(sum: u64): u32 {
  return <u32>(((sum ^ (sum >> 32)) * 0x9e3779b97f4a7c15) >> 32)
}

// @ts-ignore: decorator
@inline
export function sameAddress(a: u32, b: u32): bool {
  return (
    load<u64>(a) == load<u64>(b) &&
    load<u64>(a, 8) == load<u64>(b, 8) &&
    load<u32>(a, 16) == load<u32>(b, 16)
  )
}

// @ts-ignore: decorator
@inline
export function sameSlot(a: u32, b: u32): bool {
  return (
    load<u64>(a) == load<u64>(b) &&
    load<u64>(a, 8) == load<u64>(b, 8) &&
    load<u64>(a, 16) == load<u64>(b, 16) &&
    load<u64>(a, 24) == load<u64>(b, 24)
  )
}

// By loads and stores: `memory.copy` is a call out of the module, more expensive than so few bytes.
// @ts-ignore: decorator
@inline
export function copyAddress(to: u32, from: u32): void {
  store<u64>(to, load<u64>(from))
  store<u64>(to, load<u64>(from, 8), 8)
  store<u32>(to, load<u32>(from, 16), 16)
}

// @ts-ignore: decorator
@inline
export function copySlot(to: u32, from: u32): void {
  store<u64>(to, load<u64>(from))
  store<u64>(to, load<u64>(from, 8), 8)
  store<u64>(to, load<u64>(from, 16), 16)
  store<u64>(to, load<u64>(from, 24), 24)
}

/** Negative, 0 or positive as the bytes of an address, read from the left, are less or more. */
// @ts-ignore: decorator
@inline
export function compareAddress(a: u32, b: u32): i32 {
  const left = bswap<u64>(load<u64>(a))
  const right = bswap<u64>(load<u64>(b))
  // Addresses that are not equal almost always differ here.
  if (left != right) return left < right ? -1 : 1
  return compareBytes(a, b, ADDRESS_BYTES)
}

export function compareSlot(a: u32, b: u32): i32 {
  return compareBytes(a, b, SLOT_BYTES)
}

export function compareBytes(a: u32, b: u32, length: u32): i32 {
  let at: u32 = 0
  for (; at + 4 <= length; at += 4) {
    const left = bswap<u32>(load<u32>(a + at))
    const right = bswap<u32>(load<u32>(b + at))
    if (left != right) return left < right ? -1 : 1
  }
  return 0
}

/** The smallest power of two that is at least `count`. */
export function powerOfTwo(count: u32): u32 {
  let size: u32 = 16
  while (size < count) size <<= 1
  return size
}

// @ts-ignore: decorator
@inline
export function align8(at: u32): u32 {
  return (at + 7) & ~7
}
