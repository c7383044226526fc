// Converts hexadecimal: 0x, lowercase, full width; quantities without leading zeros.
// `writeHex` writes ASCII directly into an output buffer, without a string per call.

const digits = Uint8Array.from('0123456789abcdef', (digit) => digit.charCodeAt(0))
const pairs: readonly string[] = Array.from({ length: 256 }, (_, byte) =>
  byte.toString(16).padStart(2, '0'),
)

/** `0x` and two digits per byte. */
export function hexOf(bytes: Uint8Array, at = 0, length = bytes.length - at): string {
  let text = '0x'
  for (let index = at; index < at + length; index++) text += pairs[bytes[index]!]!
  return text
}

/** Writes `0x` and two digits per byte as ASCII at `to`; returns the offset after the last. */
export function writeHex(
  target: Uint8Array,
  to: number,
  bytes: Uint8Array,
  { at, length }: { readonly at: number; readonly length: number },
): number {
  target[to] = 0x30
  target[to + 1] = 0x78
  let next = to + 2
  for (let index = at; index < at + length; index++) {
    const byte = bytes[index]!
    target[next] = digits[byte >>> 4]!
    target[next + 1] = digits[byte & 15]!
    next += 2
  }
  return next
}

/** A JSON-RPC quantity: `0x0`, `0x1f`, never a leading zero. */
export function quantityOf(value: number | bigint): string {
  return `0x${value.toString(16)}`
}

/** The bytes of `0x…` or bare digits; null for anything but whole hex bytes. */
export function bytesOfHex(text: string): Uint8Array | null {
  const bare = text.startsWith('0x') ? text.slice(2) : text
  if (bare.length % 2 !== 0 || !/^[0-9a-fA-F]*$/.test(bare)) return null
  return Uint8Array.from({ length: bare.length / 2 }, (_, index) =>
    Number.parseInt(bare.slice(index * 2, index * 2 + 2), 16),
  )
}
