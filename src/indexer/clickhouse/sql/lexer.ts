// Splits ClickHouse SQL into tokens, so that a search for words never matches inside a string, a
// quoted name or a comment. Never throws; an unterminated token, or one that
// is not ClickHouse's, extends to the end. White space is the gap between two tokens.
// Comments do not nest, `# ` begins one; only the operators, numbers and ASCII words of SQL are
// read, all else is `unknown`.

type Plain = 'word' | 'quoted' | 'string' | 'number' | 'symbol' | 'comment'

export interface Token {
  readonly kind: Plain | 'broken' | 'unknown'
  readonly start: number
  readonly end: number
}

/** At most `max + 1` tokens: one more than `max` shows that there are more. */
export function lex(text: string, max = Number.POSITIVE_INFINITY): Token[] {
  const tokens: Token[] = []
  for (let at = 0; tokens.length <= max; ) {
    const start = endOf(spaces, text, at)
    if (start >= text.length) break
    const { kind, end } = tokenAt(text, start, tokens.at(-1))
    tokens.push({ kind, start, end })
    at = end
  }
  return tokens
}

/** An unquoted word in upper case; '' for every other token. */
export function wordOf(text: string, token: Token | undefined): string {
  return token?.kind === 'word' ? text.slice(token.start, token.end).toUpperCase() : ''
}

/** True for that word; letters are compared only when the length matches. */
export function isWord(text: string, token: Token | undefined, word: string): boolean {
  return token?.kind === 'word' && token.end - token.start === word.length
    ? wordOf(text, token) === word
    : false
}

export function symbolOf(text: string, token: Token | undefined): string {
  return token?.kind === 'symbol' ? text.slice(token.start, token.end) : ''
}

export function isSymbol(text: string, token: Token | undefined, symbol: string): boolean {
  return (
    token?.kind === 'symbol' &&
    token.end - token.start === symbol.length &&
    text.startsWith(symbol, token.start)
  )
}

/** True when there is more than white space between two tokens. */
export function hasComment(text: string, from: number, to: number): boolean {
  return endOf(spaces, text, from) < to
}

type Found = Omit<Token, 'start'>

const spaces = /[ \t-\r\u00a0\ufeff]*/y

function tokenAt(text: string, start: number, before: Token | undefined): Found {
  const char = text[start]
  if (char === "'") return quoteAt(text, start, 'string')
  if (char === '"' || char === '`') return quoteAt(text, start, 'quoted')
  return commentAt(text, start) ?? plainAt(text, start, before)
}

const plainWord = /[A-Za-z_]\w*/y
const plainNumber = /(?:0x[\da-f]+|0b[01]+|(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)(?!\w)/iy
/** After a dot: `t.1.2` are two tuple elements. */
const elementNumber = /\d+(?!\w)/y
const operator = /->|::|<=|>=|<>|!=|==|\|\||[-()[\]{},.+*%=<>?:;]|\/(?!\/)/y

/** A word, a number or an operator of ClickHouse; nothing that a server could read differently. */
function plainAt(text: string, start: number, before: Token | undefined): Found {
  let end = endOf(plainWord, text, start)
  if (end > 0) return { kind: 'word', end }
  const isElement = isSymbol(text, before, '.')
  const isDot = text[start] === '.' && isValueEnd(text, before)
  end = isDot ? 0 : endOf(isElement ? elementNumber : plainNumber, text, start)
  if (end > 0) return { kind: 'number', end }
  end = endOf(operator, text, start)
  return end > 0 ? { kind: 'symbol', end } : { kind: 'unknown', end: text.length }
}

/** Whether a dot after the token selects a column or an element, and does not start a fraction. */
function isValueEnd(text: string, token: Token | undefined): boolean {
  if (token?.kind === 'symbol') return isSymbol(text, token, ')') || isSymbol(text, token, ']')
  return token?.kind === 'word' || token?.kind === 'quoted' || token?.kind === 'number'
}

/** End of the match of a sticky pattern at `start`; 0 when it does not match. */
function endOf(pattern: RegExp, text: string, start: number): number {
  pattern.lastIndex = start
  return pattern.test(text) ? pattern.lastIndex : 0
}

function quoteAt(text: string, start: number, kind: Plain): Found {
  const quote = text[start]
  for (let at = start + 1; at < text.length; at++) {
    const char = text[at]
    if (char === '\\') at++
    else if (char === quote) {
      if (text[at + 1] !== quote) return { kind, end: at + 1 }
      at++
    }
  }
  return { kind: 'broken', end: text.length }
}

function commentAt(text: string, start: number): Found | null {
  const two = text.slice(start, start + 2)
  if (two === '--' || two === '# ' || two === '#!') {
    const end = text.indexOf('\n', start)
    return { kind: 'comment', end: end < 0 ? text.length : end }
  }
  if (two !== '/*') return null
  const close = text.indexOf('*/', start + 2)
  return close < 0 ? { kind: 'broken', end: text.length } : { kind: 'comment', end: close + 2 }
}

// Decodes string literals and quoted names as ClickHouse does, and quotes them for an engine.
// Clients quote for ClickHouse (`\'`), whichever engine runs the statement: so
// a literal is decoded once and quoted again for the engine.

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

const CHARS_MAX = 400
/** Longer than all our names, shorter than a password or a token, which may appear anywhere. */
const NAME_CHARS_MAX = 30

/**
 * Removes everything private from a statement, for the log of slow queries: literals, parameters,
 * long words and comments are `?`.
 */
export function fingerprint(text: string): string {
  const parts: string[] = []
  let chars = 0
  for (const token of lex(text, CHARS_MAX)) {
    if (token.kind === 'comment') continue
    const part = shown(text, token)
    // A list of values is collapsed into one.
    if (part === '?' && parts.at(-1) === ',' && parts.at(-2) === '?') {
      parts.pop()
      continue
    }
    parts.push(part)
    chars += part.length + 1
    if (chars > CHARS_MAX) return `${parts.join(' ').slice(0, CHARS_MAX)}…`
  }
  return parts.join(' ')
}

function shown(text: string, { kind, start, end }: Token): string {
  if (kind === 'symbol') return text.slice(start, end)
  const isName = kind === 'word' || kind === 'quoted'
  return isName && end - start <= NAME_CHARS_MAX ? text.slice(start, end) : '?'
}
