// Walks over the tokens of a short statement (SHOW, DESCRIBE, KILL), and reads KILL QUERY. Thread:
// any (pure).
import { type Checked, checked, fail } from '../exceptions.ts'
import { isSymbol, type Token, wordOf } from './lexer.ts'
import { nameOf, readQuoted } from './quoting.ts'
import type { Reading } from './reading.ts'

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
