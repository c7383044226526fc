// Text and map keys of keys, hashes and signatures: base58 (Bitcoin alphabet).
// Works in limbs of five digits (58^5 fits in 30 bits), so a 32-byte key costs about 60 divisions
// instead of the 1,400 of the digit-by-digit way. That is quadratic, so a long text (a transaction)
// is decoded by halves in BigInt instead: 1,683 characters in 80 us instead of 600.

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

const alphabet = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
const digitsPerLimb = 5
const limbBase = 58 ** digitsPerLimb
// A transaction is at most 1,232 bytes, its base58 text at most 1,683 characters:
// 1,232 * log(256) / log(58) = 1,682.5.
const base58BytesMax = 1232
export const base58TextMax = 1683

const digitOf = new Int8Array(128).fill(-1)
for (let digit = 0; digit < 58; digit++) digitOf[alphabet.charCodeAt(digit)] = digit

// Scratch of one call; every function here is synchronous. Grown by the rare longer input: what
// one program passes to another may be eight times a transaction.
let limbs = new Uint32Array(512)
const words = new Uint32Array(512)
let scratch = Buffer.alloc(2048)

/** The base58 text of the bytes. */
export function encodeBase58(bytes: Uint8Array, start = 0, end = bytes.length): string {
  if (end - start > base58BytesMax) growFor(end - start)
  let zeros = 0
  while (start + zeros < end && bytes[start + zeros] === 0) zeros++
  let used = 0
  for (let at = start + zeros; at < end; ) {
    // Two bytes at a time: limb * 2^16 stays below 2^53.
    const isPair = at + 1 < end
    let carry = isPair ? (bytes[at]! << 8) | bytes[at + 1]! : bytes[at]!
    const shift = isPair ? 65536 : 256
    at += isPair ? 2 : 1
    for (let limb = 0; limb < used; limb++) {
      const value = limbs[limb]! * shift + carry
      carry = Math.floor(value / limbBase)
      limbs[limb] = value - carry * limbBase
    }
    if (carry > 0) limbs[used++] = carry
  }
  return writeLimbs(zeros, used)
}

/** log(256) / log(58) is below 1.3658: that many digits suffice for a byte. */
function growFor(length: number): void {
  const digits = Math.ceil(length * 1.3658) + digitsPerLimb
  if (digits <= scratch.length && digits <= limbs.length * digitsPerLimb) return
  scratch = Buffer.alloc(digits)
  limbs = new Uint32Array(Math.ceil(digits / digitsPerLimb))
}

function writeLimbs(zeros: number, used: number): string {
  let at = 0
  for (; at < zeros; at++) scratch[at] = 49
  for (let limb = used - 1; limb >= 0; limb--) {
    let value = limbs[limb]!
    let isLeading = limb === used - 1
    for (let divisor = limbBase / 58; divisor >= 1; divisor /= 58) {
      const digit = Math.floor(value / divisor)
      value -= digit * divisor
      if (isLeading && digit === 0) continue
      isLeading = false
      scratch[at++] = alphabet.charCodeAt(digit)
    }
  }
  return scratch.toString('latin1', 0, at)
}

/** The bytes of a base58 text; null when it is not base58 or longer than a transaction's. */
export function decodeBase58(text: string): Uint8Array | null {
  if (text.length > base58TextMax) return null
  let zeros = 0
  while (zeros < text.length && text.charCodeAt(zeros) === 49) zeros++
  return text.length - zeros > shortTextMax ? decodeLong(text, zeros) : decodeShort(text, zeros)
}

function decodeShort(text: string, zeros: number): Uint8Array | null {
  let used = 0
  for (let at = zeros; at < text.length; ) {
    let carry = 0
    let shift = 1
    for (let taken = 0; taken < 4 && at < text.length; taken++, at++) {
      const code = text.charCodeAt(at)
      const digit = code < 128 ? digitOf[code]! : -1
      if (digit < 0) return null
      carry = carry * 58 + digit
      shift *= 58
    }
    // Words of 24 bits: word * 58^4 + carry stays below 2^53.
    for (let word = 0; word < used; word++) {
      const value = words[word]! * shift + carry
      carry = Math.floor(value / 16777216)
      words[word] = value - carry * 16777216
    }
    for (; carry > 0; carry = Math.floor(carry / 16777216)) words[used++] = carry % 16777216
  }
  return joinWords(zeros, used)
}

function joinWords(zeros: number, used: number): Uint8Array {
  const top = used === 0 ? 0 : words[used - 1]!
  const topBytes = top === 0 ? 0 : top > 0xffff ? 3 : top > 0xff ? 2 : 1
  const bytes = new Uint8Array(zeros + topBytes + Math.max(0, used - 1) * 3)
  let at = bytes.length
  for (let word = 0; word < used; word++) {
    const value = words[word]!
    const size = word === used - 1 ? topBytes : 3
    for (let byte = 0; byte < size; byte++) bytes[--at] = (value >>> (8 * byte)) & 0xff
  }
  return bytes
}

/** Up to here limbs are faster than BigInt; keys and signatures are shorter. */
const shortTextMax = 128
/** 58^9 is below 2^53. */
const digitsPerPart = 9
/** 58^9, 58^18, 58^36, ...: as many as the longest text takes. */
const partPowers: bigint[] = []
for (let digits = digitsPerPart; digits < base58TextMax; digits *= 2)
  partPowers.push(58n ** BigInt(digits))

/** Splits the text into chunks of nine digits and joins neighbours until one is left. */
function decodeLong(text: string, zeros: number): Uint8Array | null {
  let parts: bigint[] = []
  // The first chunk takes the remainder, so that all others have nine digits.
  let end = zeros + ((text.length - zeros) % digitsPerPart || digitsPerPart)
  for (let at = zeros; at < text.length; end += digitsPerPart) {
    let part = 0
    for (; at < end; at++) {
      const code = text.charCodeAt(at)
      const digit = code < 128 ? digitOf[code]! : -1
      if (digit < 0) return null
      part = part * 58 + digit
    }
    parts.push(BigInt(part))
  }
  for (let level = 0; parts.length > 1; level++) {
    let at = parts.length % 2
    const joined = parts.slice(0, at)
    for (; at < parts.length; at += 2) joined.push(parts[at]! * partPowers[level]! + parts[at + 1]!)
    parts = joined
  }
  const hex = parts[0]!.toString(16)
  const bytes = new Uint8Array(zeros + Math.ceil(hex.length / 2))
  bytes.set(Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex'), zeros)
  return bytes
}

/** Why a text is not base58, in the words of a validator's decoder; positions count bytes. */
export function base58Problem(text: string): string {
  const bytes = Buffer.from(text)
  const index = bytes.findIndex((byte) => byte > 127 || digitOf[byte]! < 0)
  const byte = bytes[index] ?? 0
  if (index < 0) return 'BufferTooSmall'
  if (byte > 127) return `NonAsciiCharacter { index: ${index} }`
  return `InvalidCharacter { character: ${charText(byte)}, index: ${index} }`
}

/** As Rust prints a character for debugging. */
function charText(byte: number): string {
  const escaped: Readonly<Record<number, string>> = {
    0: '\\0',
    9: '\\t',
    10: '\\n',
    13: '\\r',
    39: "\\'",
    92: '\\\\',
  }
  const isPlain = byte >= 32 && byte !== 127
  const plain = isPlain ? String.fromCharCode(byte) : `\\u{${byte.toString(16)}}`
  return `'${escaped[byte] ?? plain}'`
}

/** A 32-byte key from its text; null when it is not a key. */
export function decodeKey(text: string): Uint8Array | null {
  if (text.length < 32 || text.length > 44) return null
  const bytes = decodeBase58(text)
  return bytes !== null && bytes.length === 32 ? bytes : null
}

// Caches the base58 text of frequent keys: owners, mints, programs, and what callers poll.
// One key costs about 2 µs to encode and a tenth of that to look up.

/** Two-generation LRU: a full table becomes the old one, and entries in use move to the new one. */
const keysMax = 16_384
let texts = new Map<string, string>()
let oldTexts = new Map<string, string>()
const keys = new Map<string, Uint8Array>()

/** The key's base58 text, cached; also of a recent blockhash. Not for what occurs once. */
export function keyText(key: Uint8Array): string {
  return textOf(keyOf(key), key, 0, key.length)
}

/** The same for a key inside a message, from `start` up to `end`. */
export function keyTextIn(message: Buffer, start: number, end: number): string {
  return textOf(message.toString('latin1', start, end), message, start, end)
}

function textOf(name: string, bytes: Uint8Array, start: number, end: number): string {
  const known = texts.get(name)
  if (known !== undefined) return known
  if (texts.size >= keysMax) {
    oldTexts = texts
    texts = new Map()
  }
  const text = oldTexts.get(name) ?? encodeBase58(bytes, start, end)
  texts.set(name, text)
  return text
}

/** The key of a base58 text, cached, so it must not be modified; null when it is not a key. */
export function keyOfText(text: string): Uint8Array | null {
  const known = keys.get(text)
  if (known !== undefined) return known
  const key = decodeKey(text)
  if (key === null) return null
  if (keys.size >= keysMax) keys.clear()
  keys.set(text, key)
  return key
}
