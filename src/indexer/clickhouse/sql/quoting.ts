// Decodes string literals and quoted names as ClickHouse does, and quotes them for an engine.
// Clients quote for ClickHouse (`\'`), whichever engine runs the statement: so
// a literal is decoded once and quoted again for the engine.
import type { Token } from './lexer.ts'

/**
 * The content of a literal or a quoted name; null when it is not valid UTF-8. Text without one of
 * the three quotes (a heredoc or E'…' of DuckDB) is returned unchanged.
 */
export function readQuoted(written: string): string | null {
  const quote = written.charAt(0)
  if (!quotes.has(quote)) return written
  const inner = written.slice(1, -1)
  return inner.includes('\\') ? decoded(inner, quote) : inner.replaceAll(quote + quote, quote)
}

/** Resolves backslash escapes; null for an incomplete one or one that is not valid UTF-8. */
export function unescaped(text: string): string | null {
  return text.includes('\\') ? decoded(text, '') : text
}

/** An unquoted word, or a quoted name without its quotes; '' for any other token. */
export function nameOf(text: string, token: Token | undefined): string {
  if (token?.kind === 'word') return text.slice(token.start, token.end)
  return token?.kind === 'quoted' ? (readQuoted(text.slice(token.start, token.end)) ?? '') : ''
}

/** A string literal that every version of ClickHouse reads back as the same text. */
export function clickhouseString(text: string): string {
  return `'${escapedFor(text, "'")}'`
}

export function clickhouseName(name: string): string {
  return `\`${escapedFor(name, '`')}\``
}

export function duckdbString(text: string): string {
  const parts = text.split('\0').map((part) => `'${part.replaceAll("'", "''")}'`)
  // DuckDB's parser ends at a zero byte, so it is spliced in from outside the literal.
  return parts.length === 1 ? parts[0]! : `(${parts.join(' || chr(0) || ')})`
}

/** DuckDB's parser ends at a zero byte, so a name has another character for it. */
export function duckdbName(name: string): string {
  return `"${name.replaceAll('"', '""').replaceAll('\0', '\ufffd')}"`
}

const quotes = new Set(["'", '"', '`'])

/** Characters by their single-letter escape. */
const escapes: Readonly<Record<string, string>> = {
  a: '\x07',
  b: '\b',
  e: '\x1b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
  0: '\0',
  // `\N` is the empty string here.
  N: '',
  '\\': '\\',
  "'": "'",
  '"': '"',
  '`': '`',
  '/': '/',
}

/** A doubled `quote` is one; an escape that ClickHouse does not know keeps its backslash. */
function decoded(text: string, quote: string): string | null {
  // `\xHH` is a byte, and several of them may be one character.
  const hasBytes = text.includes('\\x')
  const source = hasBytes ? Buffer.from(text).toString('latin1') : text
  let plain = ''
  for (let at = 0; at < source.length; at++) {
    const char = source.charAt(at)
    if (char !== '\\') {
      plain += char
      if (char === quote) at++
      continue
    }
    const next = source.charAt(++at)
    if (next === '') return null
    if (next === 'x') {
      const hex = source.slice(at + 1, at + 3)
      if (!/^[0-9a-f]{2}$/i.test(hex)) return null
      plain += String.fromCharCode(Number.parseInt(hex, 16))
      at += 2
    } else plain += Object.hasOwn(escapes, next) ? escapes[next] : `\\${next}`
  }
  return hasBytes ? utf8Of(Buffer.from(plain, 'latin1')) : plain
}

function utf8Of(bytes: Buffer): string | null {
  const text = bytes.toString()
  return Buffer.from(text).equals(bytes) ? text : null
}

/** The escape of a control character that has a short one. */
export const shortEscapes: ReadonlyMap<string, string> = new Map(
  [...'0nrtbf'].map((letter) => [escapes[letter]!, `\\${letter}`]),
)

function escapedFor(text: string, quote: string): string {
  return (
    text
      // A lone surrogate has no UTF-8 bytes.
      .replaceAll(/\p{Surrogate}/gu, '\ufffd')
      .replaceAll('\\', '\\\\')
      .replaceAll(quote, `\\${quote}`)
      // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what has to be escaped
      .replaceAll(/[\u0000-\u001f\u007f]/g, (char) => shortEscapes.get(char) ?? hexEscape(char))
  )
}

function hexEscape(char: string): string {
  return `\\x${char.charCodeAt(0).toString(16).padStart(2, '0')}`
}
