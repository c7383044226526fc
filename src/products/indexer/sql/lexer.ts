// Splits SQL into tokens, so that a search for words never matches inside a string, a quoted name
// or a comment. Thread: any (pure). Never throws; an unterminated token, or one unknown to the
// dialect, extends to the end. White space is the gap between two tokens.
//
//   duckdb         customers' SQL for DuckDB: backslash escapes in every quote, as clients of
//                  ClickHouse write them; comments nest, heredocs, a symbol is one character
//   duckdb-native  DuckDB's own SQL: backslash escapes only in E'…'
//   clickhouse     customers' SQL for ClickHouse: comments do not nest, `# ` begins one; only the
//                  operators, numbers and ASCII words of SQL, all else is `unknown`

export type Dialect = 'duckdb' | 'duckdb-native' | 'clickhouse'

export type TokenKind =
  | 'word'
  | 'quoted'
  | 'string'
  | 'number'
  | 'symbol'
  | 'comment'
  | 'broken'
  | 'unknown'

export interface Token {
  readonly kind: TokenKind
  readonly start: number
  readonly end: number
}

/** At most `max + 1` tokens: one more than `max` shows that there are more. */
export function lex(text: string, dialect: Dialect, max = Number.POSITIVE_INFINITY): Token[] {
  const tokens: Token[] = []
  let at = 0
  while (tokens.length <= max) {
    while (isSpace(text.charCodeAt(at))) at++
    if (at >= text.length) break
    const start = at
    const { kind, end } = tokenAt(text, start, dialect, tokens.at(-1))
    at = end
    tokens.push({ kind, start, end })
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
  for (let at = from; at < to; at++) if (!isSpace(text.charCodeAt(at))) return true
  return false
}

interface Found {
  readonly kind: TokenKind
  readonly end: number
}

function tokenAt(text: string, start: number, dialect: Dialect, before: Token | undefined): Found {
  const code = text.charCodeAt(start)
  const hasEscapes = dialect !== 'duckdb-native'
  if (code === QUOTE) return quoteAt(text, start, hasEscapes, 'string')
  if (code === DOUBLE_QUOTE || code === BACKTICK) return quoteAt(text, start, hasEscapes, 'quoted')
  const comment = commentAt(text, start, dialect)
  if (comment !== null) return comment
  if (dialect === 'clickhouse') return plainAt(text, start, before)
  if (isWordStart(code)) return wordAt(text, start)
  if (isDigit(code)) return { kind: 'number', end: numberEnd(text, start) }
  if (code === DOLLAR) return heredocAt(text, start)
  return { kind: 'symbol', end: start + 1 }
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
  const isDot = text.charCodeAt(start) === DOT && isValueEnd(text, before)
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

function wordAt(text: string, start: number): Found {
  // E'…' is DuckDB's own, and reads its backslashes itself.
  if ((text.charCodeAt(start) | 0x20) === LETTER_E && text.charCodeAt(start + 1) === QUOTE)
    return quoteAt(text, start + 1, true, 'string')
  let end = start + 1
  while (isWordPart(text.charCodeAt(end))) end++
  return { kind: 'word', end }
}

function quoteAt(text: string, start: number, hasEscapes: boolean, kind: TokenKind): Found {
  const quote = text.charCodeAt(start)
  for (let at = start + 1; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (hasEscapes && code === BACKSLASH) at++
    else if (code === quote) {
      if (text.charCodeAt(at + 1) !== quote) return { kind, end: at + 1 }
      at++
    }
  }
  return { kind: 'broken', end: text.length }
}

/** `$$…$$` and `$tag$…$tag$`; a dollar that opens neither is a symbol. */
function heredocAt(text: string, start: number): Found {
  let end = start + 1
  while (end - start <= TAG_CHARS_MAX && isTagPart(text.charCodeAt(end))) end++
  if (text.charCodeAt(end) !== DOLLAR || isDigit(text.charCodeAt(start + 1)))
    return { kind: 'symbol', end: start + 1 }
  const tag = text.slice(start, end + 1)
  const close = text.indexOf(tag, end + 1)
  return close < 0
    ? { kind: 'broken', end: text.length }
    : { kind: 'string', end: close + tag.length }
}

function commentAt(text: string, start: number, dialect: Dialect): Found | null {
  const two = text.slice(start, start + 2)
  if (two === '--') return { kind: 'comment', end: lineEnd(text, start) }
  if (dialect === 'clickhouse' && (two === '# ' || two === '#!'))
    return { kind: 'comment', end: lineEnd(text, start) }
  if (two !== '/*') return null
  let depth = 1
  for (let at = start + 2; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === STAR && text.charCodeAt(at + 1) === SLASH) {
      if (--depth === 0) return { kind: 'comment', end: at + 2 }
      at++
    } else if (dialect !== 'clickhouse' && code === SLASH && text.charCodeAt(at + 1) === STAR) {
      depth++
      at++
    }
  }
  return { kind: 'broken', end: text.length }
}

function lineEnd(text: string, start: number): number {
  const end = text.indexOf('\n', start)
  return end < 0 ? text.length : end
}

function numberEnd(text: string, start: number): number {
  let end = start + 1
  for (;;) {
    const code = text.charCodeAt(end)
    const isSign = code === PLUS || code === MINUS
    // A sign belongs to a number only after the e of a decimal exponent.
    const isExponent = (text.charCodeAt(end - 1) | 0x20) === LETTER_E && !isHex(text, start)
    if (isWordPart(code) || code === DOT || (isSign && isExponent)) end++
    else return end
  }
}

function isHex(text: string, start: number): boolean {
  return /^0x/i.test(text.slice(start, start + 2))
}

const TAG_CHARS_MAX = 64
const QUOTE = 0x27
const DOUBLE_QUOTE = 0x22
const BACKTICK = 0x60
const BACKSLASH = 0x5c
const DOLLAR = 0x24
const STAR = 0x2a
const SLASH = 0x2f
const DOT = 0x2e
const PLUS = 0x2b
const MINUS = 0x2d
const LETTER_E = 0x65

function isSpace(code: number): boolean {
  return code === 0x20 || (code >= 0x09 && code <= 0x0d) || code === 0xa0 || code === 0xfeff
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39
}

function isWordStart(code: number): boolean {
  const lower = code | 0x20
  return (lower >= 0x61 && lower <= 0x7a) || code === 0x5f || (code >= 0x80 && !isSpace(code))
}

function isWordPart(code: number): boolean {
  return isWordStart(code) || isDigit(code) || code === DOLLAR
}

function isTagPart(code: number): boolean {
  return isWordStart(code) || isDigit(code)
}
