// Converts keys and signatures to map keys and back. Thread: any (pure).

/**
 * The bytes as a binary string, one character each: a map key that costs a tenth of base58.
 * Back to bytes with `bytesOf`.
 */
export function keyOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')
}

export function bytesOf(key: string): Uint8Array {
  return Buffer.from(key, 'latin1')
}

export function isSameKey(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0
}
