// Walks over the tokens of a short statement (SHOW, DESCRIBE, KILL). Thread: any (pure).
import { isSymbol, type Token, wordOf } from './lexer.ts'
import { nameOf, readQuoted } from './quoting.ts'
import type { Reading } from './reading.ts'

export class Cursor {
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
