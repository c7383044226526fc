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
