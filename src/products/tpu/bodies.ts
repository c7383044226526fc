// Decodes request bodies: one transaction as text or bytes, or several in one body.
// Pure. Never throws.
import { accept, type Outcome } from '../../base/errors.ts'
import { base58TextMax, decodeBase58 } from '../../chain/solana/base58.ts'
import { badEncoding, tooLarge } from './refusals.ts'

export type Encoding = 'base58' | 'base64'

/** 4,096 bytes in base64: version 1; the decoder knows the limit of each version. */
const base64TextMax = 5_464

/** Where the spec is silent: payload of a batch. */
export const batchItemsMax = 16

export function decodeText(text: string, encoding: Encoding): Outcome<Uint8Array> {
  if (text.length > (encoding === 'base64' ? base64TextMax : base58TextMax)) return tooLarge
  const bytes = encoding === 'base64' ? decodeBase64(text) : decodeBase58(text)
  return bytes === null ? badEncoding : accept(bytes)
}

/**
 * Strict, as if the bytes were encoded again and compared: Node skips characters outside of the
 * alphabet, so that there are fewer bytes, takes base64url, too, and ignores bits after the last
 * byte.
 */
function decodeBase64(text: string): Uint8Array | null {
  const bytes = Buffer.from(text, 'base64')
  if (Math.ceil(bytes.length / 3) * 4 !== text.length) return null
  if (text.includes('-') || text.includes('_')) return null
  const rest = bytes.length % 3
  if (rest > 0 && bytes.toString('base64', bytes.length - rest) !== text.slice(-4)) return null
  return bytes
}

/**
 * Splits a batch: each transaction is prefixed by its length in two bytes, big-endian. Null when
 * the lengths do not add up to the body, or when it has no transactions or too many.
 */
export function splitBatch(body: Buffer): Buffer[] | null {
  const items: Buffer[] = []
  let at = 0
  while (at < body.length) {
    if (at + 2 > body.length || items.length === batchItemsMax) return null
    const end = at + 2 + body.readUInt16BE(at)
    if (end > body.length) return null
    items.push(body.subarray(at + 2, end))
    at = end
  }
  return items.length === 0 ? null : items
}
