// Caches the base58 text of frequent keys: owners, mints, programs, and what callers poll.
// One key costs about 2 µs to encode and a tenth of that to look up.
import { decodeKey, encodeBase58 } from './base58.ts'
import { keyOf } from './keys.ts'

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
