// Decodes base64 strictly, and words what is wrong as a validator's decoder does.

/** Padded, no other characters, no bits left over; null for anything else. */
export function decodeBase64(text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64')
  return bytes.toString('base64') === text ? bytes : null
}

/** Why `decodeBase64` gives null. The last four characters, which may be padded, come last. */
export function base64Problem(text: string): string {
  const bytes = Buffer.from(text)
  const rest = bytes.length % 4
  const last = bytes.length - 1
  if (rest === 1 && bytes[last] !== PAD && !isSymbol(bytes[last]!)) return invalidByte(bytes, last)
  const start = Math.max(0, bytes.length - (rest === 0 ? 4 : rest))
  const bad = bytes.subarray(0, start).findIndex((byte) => !isSymbol(byte))
  return bad < 0 ? endProblem(bytes, start) : invalidByte(bytes, bad)
}

const PAD = 0x3d

function endProblem(bytes: Buffer, start: number): string {
  const end = bytes.subarray(start)
  const padAt = end.indexOf(PAD)
  const symbols = padAt < 0 ? end.length : padAt
  const bad = end.subarray(0, symbols).findIndex((byte) => !isSymbol(byte))
  if (bad >= 0) return invalidByte(bytes, start + bad)
  // Padding follows two symbols at least, and nothing follows padding.
  const isPadded = padAt >= 0
  if (isPadded && (symbols < 2 || end.subarray(padAt).some((byte) => byte !== PAD)))
    return invalidByte(bytes, start + padAt)
  if (symbols < 2) return `InvalidLength(${start + symbols})`
  if (end.length % 4 !== 0) return 'InvalidPadding'
  // The last symbol has bits that belong to no byte.
  return `InvalidLastSymbol(${start + symbols - 1}, ${bytes[start + symbols - 1]})`
}

function invalidByte(bytes: Buffer, at: number): string {
  return `InvalidByte(${at}, ${bytes[at]})`
}

function isSymbol(byte: number): boolean {
  return /[A-Za-z0-9+/]/.test(String.fromCharCode(byte))
}
