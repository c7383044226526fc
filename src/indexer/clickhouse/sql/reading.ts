// Parses one statement: its kind, and the clauses that are handled by the endpoint instead of the
// engine (`FORMAT x`, `SETTINGS a = b`, a closing semicolon).
import { type Checked, checked, fail } from '../exceptions.ts'
import { isSymbol, isWord, lex, nameOf, readQuoted, symbolOf, type Token, wordOf } from './lexer.ts'

/** `query` runs on the engine; the others are answered by the endpoint. */
type StatementKind = 'query' | 'kill' | 'show' | 'describe' | 'exists' | 'use'

export interface Reading {
  readonly kind: StatementKind
  readonly text: string
  /** Tokens of the statement without its clauses and comments. */
  readonly tokens: readonly Token[]
  /** The name after FORMAT; null when absent. */
  readonly format: string | null
  /** As written; a later one of the same name wins. */
  readonly settings: readonly Setting[]
}

export type Setting = readonly [name: string, value: string]

/** Before and after FORMAT; more are a mistake, and each costs a pass over the tokens. */
const SETTINGS_CLAUSES_MAX = 2
/** Longer lists belong in a parameter. */
const TOKENS_MAX = 20_000

export function readStatement(text: string): Checked<Reading> {
  const all = lex(text, TOKENS_MAX)
  if (all.length > TOKENS_MAX)
    return fail('SYNTAX_ERROR', `a query has at most ${TOKENS_MAX} words and signs`)
  const problem = lexProblem(text, all)
  if (problem !== null) return fail('SYNTAX_ERROR', problem)
  const single = firstStatement(text, all)
  if (!single.ok) return single
  const { tokens, format, settings } = withoutTail(text, single.value)
  const kind = kindOf(text, tokens)
  if (!kind.ok) return kind
  const strayed = misplaced(text, tokens)
  if (strayed !== null) return fail(...strayed)
  return checked({ kind: kind.value, text, tokens, format, settings })
}

/** Why the text cannot be parsed; null when it can. */
export function lexProblem(text: string, tokens: readonly Token[]): string | null {
  const last = tokens.at(-1)
  if (last?.kind === 'broken') return 'a string, a quoted name or a comment is not closed'
  if (last?.kind === 'unknown')
    return `${unknownSign(text, last.start)} is not taken here; comments are -- and /* */`
  for (const { kind, start, end } of tokens) {
    if (kind !== 'string' && kind !== 'quoted') continue
    const plain = readQuoted(text.slice(start, end))
    if (plain === null) return 'a string or a quoted name is no UTF-8 text: take unhex()'
    if (kind === 'quoted' && (plain === '' || plain.includes('\0')))
      return 'a quoted name is empty or has a zero byte'
  }
  return null
}

/** Only the symbol is shown: what follows may be a secret. */
function unknownSign(text: string, at: number): string {
  const sign = text.startsWith('//', at) ? '//' : text.charAt(at)
  if (/[\d.]/.test(sign)) return 'a number that runs into a word'
  return /^[\x21-\x7e]+$/.test(sign) ? `the sign ${sign}` : 'a character outside of ASCII'
}

/** The tokens up to the semicolon, after which nothing may follow. */
function firstStatement(text: string, all: readonly Token[]): Checked<readonly Token[]> {
  const tokens = all.filter(({ kind }) => kind !== 'comment')
  const end = tokens.findIndex((token) => isSymbol(text, token, ';'))
  const first = end < 0 ? tokens : tokens.slice(0, end)
  const rest = end < 0 ? [] : tokens.slice(end)
  if (rest.some((token) => !isSymbol(text, token, ';')))
    return fail('SYNTAX_ERROR', 'a request takes one statement; several are given')
  if (first.length === 0) return fail('SYNTAX_ERROR', 'the query is empty')
  return checked(first)
}

interface Tail {
  tokens: readonly Token[]
  format: string | null
  settings: readonly Setting[]
}

/** Removes FORMAT and SETTINGS from the end, in either order. */
function withoutTail(text: string, all: readonly Token[]): Tail {
  const tail: Tail = { tokens: all, format: null, settings: [] }
  let clauses = 0
  for (;;) {
    const { tokens } = tail
    const name = tokens.at(-1)
    const isFormat = tail.format === null && name?.kind === 'word'
    if (isFormat && isClauseAt(text, tokens, tokens.length - 2, 'FORMAT')) {
      tail.format = text.slice(name.start, name.end)
      tail.tokens = tokens.slice(0, -2)
      continue
    }
    const at = tokens.findLastIndex((token) => isWord(text, token, 'SETTINGS'))
    const found = at > 0 ? readSettings(text, tokens.slice(at + 1)) : null
    const isClause = found !== null && isClauseAt(text, tokens, at, 'SETTINGS')
    if (!isClause || ++clauses > SETTINGS_CLAUSES_MAX) return tail
    tail.settings = [...found, ...tail.settings]
    tail.tokens = tokens.slice(0, at)
  }
}

/** After a comma, a dot, a symbol or FROM the word is an ordinary name. */
function isClauseAt(text: string, tokens: readonly Token[], at: number, word: string): boolean {
  if (at < 1 || !isWord(text, tokens[at], word)) return false
  const before = tokens[at - 1]!
  if (before.kind === 'symbol') return ')]}*'.includes(symbolOf(text, before))
  return !beforeNames.has(wordOf(text, before))
}

const beforeNames = new Set(
  'SELECT FROM JOIN AS WHERE AND OR NOT BY ON IN HAVING LIKE WHEN THEN ELSE CASE USING'.split(' '),
)

/** Parses `a = 1, b = 'x'` and nothing else; null when it is not that. */
function readSettings(text: string, tokens: readonly Token[]): readonly Setting[] | null {
  const settings: Setting[] = []
  let at = 0
  for (;;) {
    const name = tokens[at++]
    if (name?.kind !== 'word' || !isSymbol(text, tokens[at++], '=')) return null
    const isNegative = isSymbol(text, tokens[at], '-')
    const value = tokens[isNegative ? ++at : at]
    at++
    if (value === undefined || !['word', 'number', 'string'].includes(value.kind)) return null
    const written = text.slice(value.start, value.end)
    const plain = value.kind === 'string' ? readQuoted(written) : written
    settings.push([text.slice(name.start, name.end), `${isNegative ? '-' : ''}${plain}`])
    if (at === tokens.length) return settings
    if (!isSymbol(text, tokens[at++], ',')) return null
  }
}

const queryWords = 'SELECT WITH EXPLAIN FROM'
const kinds: ReadonlyMap<string, StatementKind> = new Map<string, StatementKind>([
  ...queryWords.split(' ').map((word) => [word, 'query'] as const),
  ...(['KILL', 'SHOW', 'DESCRIBE', 'EXISTS', 'USE'] as const).map(
    (word) => [word, word.toLowerCase() as Lowercase<typeof word>] as const,
  ),
  ['DESC', 'describe'],
])

/** First words of statements that change something, in either engine's SQL. */
export const changing = new Set(
  (
    'INSERT CREATE DROP ALTER SET RENAME TRUNCATE OPTIMIZE ATTACH DETACH SYSTEM GRANT REVOKE ' +
    'DELETE UPDATE MERGE REPLACE EXCHANGE UNDROP CHECK BACKUP RESTORE MOVE WATCH EXECUTE PREPARE ' +
    'DEALLOCATE BEGIN START COMMIT ROLLBACK ABORT COPY EXPORT IMPORT INSTALL LOAD UPDATE PRAGMA ' +
    'CALL CHECKPOINT FORCE VACUUM ANALYZE RESET COMMENT TRANSACTION'
  ).split(' '),
)

function kindOf(text: string, tokens: readonly Token[]): Checked<StatementKind> {
  const first = tokens.findIndex((token) => !isSymbol(text, token, '('))
  const word = wordOf(text, tokens[first])
  const kind = kinds.get(word)
  const change = word === 'WITH' || word === 'EXPLAIN' ? changeAfter(text, tokens, first) : word
  if (changing.has(change))
    return fail('READONLY', `cannot execute ${change}: this database is read-only`)
  if (kind !== undefined && (kind === 'query' || first === 0)) return checked(kind)
  const at = (tokens[first]?.start ?? 0) + 1
  const expected = 'Expected one of: SELECT, WITH, EXPLAIN, SHOW, DESCRIBE'
  return fail('SYNTAX_ERROR', `Syntax error: failed at position ${at}. ${expected}`)
}

/** The main word after WITH or EXPLAIN, outside of parentheses. */
function changeAfter(text: string, tokens: readonly Token[], first: number): string {
  let depth = 0
  for (const token of tokens.slice(first + 1)) {
    if (isSymbol(text, token, '(')) depth++
    else if (isSymbol(text, token, ')')) depth--
    else if (depth === 0 && token.kind === 'word') {
      const word = wordOf(text, token)
      if (kinds.has(word) || writing.has(word)) return word
    }
  }
  return ''
}

/** Words that can follow WITH or EXPLAIN and are not a common table's name or an option. */
const writing = new Set('INSERT UPDATE DELETE MERGE CREATE DROP ALTER COPY'.split(' '))

/** Clauses that must not reach an engine: inner settings would bypass the plan's limits. */
function misplaced(text: string, tokens: readonly Token[]): Parameters<typeof fail> | null {
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at]
    if (isWord(text, token, 'INTO') && isWord(text, tokens[at + 1], 'OUTFILE'))
      return ['READONLY', 'INTO OUTFILE writes files: take the result from the answer']
    const isSetting = isWord(text, token, 'SETTINGS') && isEquals(text, tokens[at + 2])
    if (isSetting && tokens[at + 1]?.kind !== 'symbol')
      return ['SYNTAX_ERROR', 'SETTINGS are taken at the end of the query only']
  }
  return null
}

/** ClickHouse treats both as the same. */
function isEquals(text: string, token: Token | undefined): boolean {
  return isSymbol(text, token, '=') || isSymbol(text, token, '==')
}

/** Walks over the tokens of a short statement (SHOW, DESCRIBE, KILL). */
export class TokenCursor {
  readonly #text: string
  readonly #tokens: readonly Token[]
  #at = 0

  constructor({ text, tokens }: Reading) {
    this.#text = text
    this.#tokens = tokens
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#tokens.length
  }

  /** Consumes one of these words and returns it; '' when the next token is another. */
  word(...wanted: readonly string[]): string {
    const word = wordOf(this.#text, this.#tokens[this.#at])
    if (word === '' || !wanted.includes(word)) return ''
    this.#at++
    return word
  }

  symbol(wanted: string): boolean {
    if (!isSymbol(this.#text, this.#tokens[this.#at], wanted)) return false
    this.#at++
    return true
  }

  /** A name, quoted or not. */
  name(): string | null {
    const token = this.#tokens[this.#at]
    if (token?.kind !== 'word' && token?.kind !== 'quoted') return null
    this.#at++
    return nameOf(this.#text, token)
  }

  /** The content of a string literal. */
  string(): string | null {
    const token = this.#tokens[this.#at]
    const written = token === undefined ? '' : this.#text.slice(token.start, token.end)
    if (token?.kind !== 'string' || !written.startsWith("'")) return null
    this.#at++
    return readQuoted(written)
  }

  number(): number | null {
    const token = this.#tokens[this.#at]
    const value = token?.kind === 'number' ? Number(this.#text.slice(token.start, token.end)) : -1
    if (!Number.isSafeInteger(value) || value < 0) return null
    this.#at++
    return value
  }
}

interface Kill {
  /** Null: all queries. */
  readonly ids: readonly string[] | null
  /** Null: the caller. */
  readonly user: string | null
  /** Only lists the queries that would be killed. */
  readonly isTest: boolean
}

/**
 * `KILL QUERY WHERE query_id = 'x' [AND user = 'y'] [SYNC | ASYNC | TEST]`. The caller checks who
 * owns the queries.
 */
export function readKill(reading: Reading): Checked<Kill> {
  const cursor = new TokenCursor(reading)
  const begins = cursor.word('KILL') !== '' && cursor.word('QUERY') !== ''
  if (!begins || cursor.word('WHERE') === '') return unclear()
  let ids: readonly string[] | null = null
  let user: string | null = null
  do {
    const name = cursor.word('QUERY_ID', 'USER')
    const values = name === '' ? null : valuesAt(cursor)
    if (values === null) return unclear()
    if (name === 'QUERY_ID') ids = values
    else if (values.length === 1) user = values[0]!
    else return unclear()
  } while (cursor.word('AND') !== '')
  const mode = cursor.word('SYNC', 'ASYNC', 'TEST')
  return cursor.isAtEnd ? checked({ ids, user, isTest: mode === 'TEST' }) : unclear()
}

/** `= 'x'` or `IN ('x', 'y')`. */
function valuesAt(cursor: TokenCursor): readonly string[] | null {
  if (cursor.symbol('=')) {
    const value = cursor.string()
    return value === null ? null : [value]
  }
  if (cursor.word('IN') === '' || !cursor.symbol('(')) return null
  const values: string[] = []
  do {
    const value = cursor.string()
    if (value === null) return null
    values.push(value)
  } while (cursor.symbol(','))
  return cursor.symbol(')') ? values : null
}

function unclear() {
  return fail('SYNTAX_ERROR', "queries are killed with KILL QUERY WHERE query_id = '…'")
}
