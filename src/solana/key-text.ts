// Base58 of keys that come up again and again: owners, mints, programs. Thread: any.
// One key costs about 2 µs to encode and a tenth of that to find.
import { encodeBase58 } from './base58.ts'
import { keyOf } from './keys.ts'

/** Few programs own most accounts; when the table is full it starts again. */
const keysMax = 16_384
const texts = new Map<string, string>()

/** The key's base58 text, remembered. Not for signatures or hashes, which come once. */
export function keyText(key: Uint8Array): string {
  const name = keyOf(key)
  const known = texts.get(name)
  if (known !== undefined) return known
  if (texts.size >= keysMax) texts.clear()
  const text = encodeBase58(key)
  texts.set(name, text)
  return text
}
