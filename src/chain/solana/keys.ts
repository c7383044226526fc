// Converts keys and signatures to map keys and back.

/**
 * The bytes as a binary string, one character each: a map key that costs a tenth of base58.
 * Back to bytes with `bytesOf`.
 */
export function keyOf(bytes: Uint8Array): string {
  return latin1Slice.call(bytes, 0, bytes.length)
}

// Reason for the cast: Buffer's method works on any byte array; its type requires a Buffer.
const latin1Slice = (
  Buffer.prototype as unknown as {
    latin1Slice(this: Uint8Array, start: number, end: number): string
  }
).latin1Slice

export function bytesOf(key: string): Uint8Array {
  return Buffer.from(key, 'latin1')
}

export function isSameKey(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0
}
