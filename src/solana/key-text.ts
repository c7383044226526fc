// Base58 of keys that come up again and again: owners, mints, programs, and what callers poll.
// Thread: any.
// One key costs about 2 µs to encode and a tenth of that to find.
import { decodeKey, encodeBase58 } from './base58.ts'
import { keyOf } from './keys.ts'

/** Few programs own most accounts. A full table becomes the old one: what is used moves on. */
const keysMax = 16_384
let texts = new Map<string, string>()
let oldTexts = new Map<string, string>()
const keys = new Map<string, Uint8Array>()

/** The key's base58 text, remembered. Not for signatures or hashes, which come once. */
export function keyText(key: Uint8Array): string {
  return textOf(keyOf(key), key, 0, key.length)
}

/** The same for a key that stands inside a message, from `start` up to `end`. */
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

/** The key of a base58 text, remembered, so nobody writes into it; null when it is none. */
export function keyOfText(text: string): Uint8Array | null {
  const known = keys.get(text)
  if (known !== undefined) return known
  const key = decodeKey(text)
  if (key === null) return null
  if (keys.size >= keysMax) keys.clear()
  keys.set(text, key)
  return key
}
