// Base 62 text (0-9, A-Z, a-z): the alphabet of tokens, passwords and checksums.

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
