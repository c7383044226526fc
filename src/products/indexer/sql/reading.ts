// Parses one statement: its kind, and the clauses that are handled by the endpoint instead of the
// engine (`FORMAT x`, `SETTINGS a = b`, a closing semicolon). Thread: any (pure).
import { type Checked, checked, fail } from '../exceptions.ts'
import { type Dialect, isSymbol, isWord, lex, symbolOf, type Token, wordOf } from './lexer.ts'
import { readQuoted } from './quoting.ts'

/** `query` runs on the engine; the others are answered by the endpoint. */
export type StatementKind = 'query' | 'kill' | 'show' | 'describe' | 'exists' | 'use'

export interface Reading {
  readonly kind: StatementKind
  readonly text: string
  /** Tokens of the statement without its clauses and comments. */
  readonly tokens: readonly Token[]
  /** The name after FORMAT; null when there is none. */
  readonly format: string | null
  /** As written; a later one of the same name wins. */
  readonly settings: readonly (readonly [name: string, value: string])[]
}

/** Before and after FORMAT; more are a mistake, and each costs a pass over the tokens. */
const SETTINGS_CLAUSES_MAX = 2
/** Longer lists belong in a parameter. */
const TOKENS_MAX = 20_000

export function readStatement(text: string, dialect: Dialect): Checked<Reading> {
  const all = lex(text, dialect, TOKENS_MAX)
  if (all.length > TOKENS_MAX)
    return fail('SYNTAX_ERROR', `a query has at most ${TOKENS_MAX} words and signs`)
  const problem = lexProblem(text, all)
  if (problem !== null) return fail('SYNTAX_ERROR', problem)
  const single = firstStatement(
    text,
    all.filter(({ kind }) => kind !== 'comment'),
  )
  if (!single.ok) return single
  const tail = new Tail(text, single.value)
  tail.strip()
  const tokens = tail.tokens
  const kind = kindOf(text, tokens)
  if (!kind.ok) return kind
  const strayed = misplaced(text, tokens)
  if (strayed !== null) return fail(...strayed)
  return checked({ kind: kind.value, text, tokens, format: tail.format, settings: tail.settings })
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
function firstStatement(text: string, tokens: readonly Token[]): Checked<readonly Token[]> {
  const end = tokens.findIndex((token) => isSymbol(text, token, ';'))
  const first = end < 0 ? tokens : tokens.slice(0, end)
  const rest = end < 0 ? [] : tokens.slice(end)
  if (rest.some((token) => !isSymbol(text, token, ';')))
    return fail('SYNTAX_ERROR', 'a request takes one statement; several are given')
  if (first.length === 0) return fail('SYNTAX_ERROR', 'the query is empty')
  return checked(first)
}

/** Removes FORMAT and SETTINGS from the end, in either order. */
class Tail {
  tokens: readonly Token[]
  format: string | null = null
  settings: (readonly [string, string])[] = []
  #settingsClauses = 0
  readonly #text: string

  constructor(text: string, tokens: readonly Token[]) {
    this.#text = text
    this.tokens = tokens
  }

  strip(): void {
    while (this.#stripFormat() || this.#stripSettings()) {
      // Repeated for the clause before.
    }
  }

  #stripFormat(): boolean {
    const at = this.tokens.length - 2
    const name = this.tokens[at + 1]
    const isHere = at > 0 && isWord(this.#text, this.tokens[at], 'FORMAT')
    if (!isHere || this.format !== null || name?.kind !== 'word' || !this.#isClauseAt(at))
      return false
    this.format = this.#text.slice(name.start, name.end)
    this.tokens = this.tokens.slice(0, at)
    return true
  }

  #stripSettings(): boolean {
    if (this.#settingsClauses === SETTINGS_CLAUSES_MAX) return false
    for (let at = this.tokens.length - 1; at > 0; at--) {
      if (!isWord(this.#text, this.tokens[at], 'SETTINGS')) continue
      const found = readSettings(this.#text, this.tokens.slice(at + 1))
      if (found === null || !this.#isClauseAt(at)) return false
      this.#settingsClauses += 1
      this.settings = [...found, ...this.settings]
      this.tokens = this.tokens.slice(0, at)
      return true
    }
    return false
  }

  /** After a comma, a dot, a symbol or FROM the word is an ordinary name. */
  #isClauseAt(at: number): boolean {
    const before = this.tokens[at - 1]!
    if (before.kind === 'symbol') return ')]}*'.includes(symbolOf(this.#text, before))
    return !beforeNames.has(wordOf(this.#text, before))
  }
}

const beforeNames = new Set(
  'SELECT FROM JOIN AS WHERE AND OR NOT BY ON IN HAVING LIKE WHEN THEN ELSE CASE USING'.split(' '),
)

/** Parses `a = 1, b = 'x'` and nothing else; null when it is not that. */
function readSettings(
  text: string,
  tokens: readonly Token[],
): readonly (readonly [string, string])[] | null {
  const settings: (readonly [string, string])[] = []
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

const kinds: Readonly<Record<string, StatementKind>> = {
  SELECT: 'query',
  WITH: 'query',
  EXPLAIN: 'query',
  FROM: 'query',
  VALUES: 'query',
  TABLE: 'query',
  SUMMARIZE: 'query',
  PIVOT: 'query',
  UNPIVOT: 'query',
  KILL: 'kill',
  SHOW: 'show',
  DESCRIBE: 'describe',
  DESC: 'describe',
  EXISTS: 'exists',
  USE: 'use',
}

/** First words of statements that change something, in either engine's SQL. */
const changing = new Set(
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
  const kind = Object.hasOwn(kinds, word) ? kinds[word] : undefined
  const change = word === 'WITH' || word === 'EXPLAIN' ? changeAfter(text, tokens, first) : word
  if (changing.has(change))
    return fail('READONLY', `cannot execute ${change}: this database is read-only`)
  if (kind !== undefined && (kind === 'query' || first === 0)) return checked(kind)
  return fail('SYNTAX_ERROR', 'a query begins with SELECT, WITH, EXPLAIN, SHOW or DESCRIBE')
}

/** The main word after WITH or EXPLAIN, outside of parentheses. */
function changeAfter(text: string, tokens: readonly Token[], first: number): string {
  let depth = 0
  for (const token of tokens.slice(first + 1)) {
    if (isSymbol(text, token, '(')) depth++
    else if (isSymbol(text, token, ')')) depth--
    else if (depth === 0 && token.kind === 'word') {
      const word = wordOf(text, token)
      if (Object.hasOwn(kinds, word) || writing.has(word)) return word
    }
  }
  return ''
}

/** Words that can follow WITH or EXPLAIN and are not a common table's name or an option. */
const writing = new Set('INSERT UPDATE DELETE MERGE CREATE DROP ALTER COPY'.split(' '))

type Strayed = Parameters<typeof fail>

/** Clauses that must not reach an engine: inner settings would bypass the plan's limits. */
function misplaced(text: string, tokens: readonly Token[]): Strayed | null {
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
