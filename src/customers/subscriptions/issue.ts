// Makes tokens, passwords and ids, and digests them.
// A secret exists in the return value only; stored are its SHA-256 and its last four characters.
//
//   slu_ 9fK…(32 base62, 190 bits)… 1a2B3c
//   |    |                          +- CRC-32 of the 32 characters, in base 62, 6 wide
//   |    +- what makes it unguessable
//   +- lets secret scanners recognize a leaked token
import { hash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'

const tokenPrefix = 'slu_'
const randomChars = 32
const checksumChars = 6
export const tokenChars = tokenPrefix.length + randomChars + checksumChars

/** No 0/o, 1/l/i: ids are read aloud. */
const idAlphabet = '23456789abcdefghjkmnpqrstuvwxyz'
const idChars = 8
export const idPrefix = 'sub_'

export function issueToken(): string {
  const body = randomBase62(randomChars)
  return `${tokenPrefix}${body}${toBase62(crc32(body), checksumChars)}`
}

export function issuePassword(): string {
  return randomBase62(randomChars)
}

export function issueId(): string {
  let id = idPrefix
  while (id.length < idPrefix.length + idChars)
    for (const byte of randomBytes(idChars)) {
      // Rejects bytes from 248 on, which would make the first letters likelier (modulo bias).
      if (byte < 248 && id.length < idPrefix.length + idChars) id += idAlphabet[byte % 31]
    }
  return id
}

/** Hex SHA-256, the stored form of a secret. Its entropy makes a slow hash unnecessary. */
export function digestOf(secret: string): string {
  return hash('sha256', secret, 'hex')
}

/**
 * The same SHA-256 as a text of 32 characters, one per byte: half as long as hex, so a look-up
 * costs half as much. Never leaves the process.
 */
export function lookupKeyOf(secret: string): string {
  return hash('sha256', secret, 'binary')
}

/** The look-up key of a stored digest. */
export function lookupKeyOfDigest(digest: string): string {
  return Buffer.from(digest, 'hex').toString('latin1')
}

/** True when a text that would be stored (a label, a note, a reason) contains a token. */
export function holdsToken(text: string): boolean {
  return /slu_[0-9A-Za-z]{38}/.test(text)
}

function randomBase62(length: number): string {
  let text = ''
  while (text.length < length) text += base62OfBytes(randomBytes(length))
  return text.slice(0, length)
}

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const base = alphabet.length
/** Bytes from here on (4 x 62) would make some characters likelier than others. */
const fairBytes = 256 - (256 % base)

/** The number in base 62, padded on the left with zeros to at least `width` characters. */
export function toBase62(value: number, width: number): string {
  let text = ''
  for (let rest = value; rest > 0; rest = Math.floor(rest / base))
    text = alphabet[rest % base] + text
  return text.padStart(width, '0')
}

/**
 * One character for every byte below `fairBytes`, so the result may be shorter than the input: a
 * caller that needs a length passes more bytes until it is reached.
 */
export function base62OfBytes(bytes: Uint8Array): string {
  let text = ''
  for (const byte of bytes) if (byte < fairBytes) text += alphabet[byte % base]
  return text
}
