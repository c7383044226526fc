// Makes the statement that an engine runs: comments are gone, `{name:Type}` places are values.
// Thread: any (pure). A place is one only when its type is one: DuckDB writes structs in braces.
import type { Statement, TypedValue } from '../engine.ts'
import { type Checked, checked, fail } from '../exceptions.ts'
import { type Dialect, hasComment, isSymbol, type Token } from './lexer.ts'
import { duckdbName, duckdbString, readQuoted } from './quoting.ts'
import type { Reading } from './reading.ts'
import { parseType, type SqlType } from './types.ts'
import { parseValue } from './values.ts'

/**
 * Characters of all values together. One value may stand in thousands of places: without a bound
 * a short request becomes a statement of gigabytes.
 */
export const VALUE_CHARS_MAX = 1_048_576

/** Parameters that no place asks for are left alone, as ClickHouse does. */
export function bindPlaces(
  { text, tokens }: Reading,
  parameters: ReadonlyMap<string, string>,
  dialect: Dialect,
): Checked<Statement> {
  const made = new Making(text, tokens[0]?.start ?? 0)
  let chars = 0
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at]!
    made.reach(token)
    const place = isSymbol(text, token, '{') ? placeAt(text, tokens, at) : null
    if (place === null) {
      const requoted = dialect === 'duckdb' ? requotedForDuckdb(text, token) : null
      if (requoted !== null) made.put(requoted, token.end)
      continue
    }
    chars += parameters.get(place.name)?.length ?? 0
    if (chars > VALUE_CHARS_MAX)
      return fail('BAD_QUERY_PARAMETER', `values have at most ${VALUE_CHARS_MAX} characters in all`)
    const bound = bind(place, parameters)
    if (!bound.ok) return bound
    if (bound.value === null) continue
    at = place.last
    const { end } = tokens[at]!
    if (bound.value.type === 'Identifier') made.put(`"${String(bound.value.value)}"`, end)
    else made.value(bound.value, end)
  }
  return checked(made.statement(tokens.at(-1)?.end ?? 0))
}

/** Copies the text in long runs, since a query may have thousands of tokens. */
class Making {
  readonly #text: string
  readonly #texts: string[] = []
  readonly #values: TypedValue[] = []
  #part = ''
  /** Where the run that is not copied yet begins, and how far it is known to be good. */
  #from: number
  #end: number
  #start = 0

  constructor(text: string, from: number) {
    this.#text = text
    this.#from = this.#end = from
  }

  /** Goes on to a token; a comment before it becomes a blank. */
  reach({ start, end }: Token): void {
    if (start - this.#end > 1 && hasComment(this.#text, this.#end, start)) {
      this.#part += `${this.#text.slice(this.#from, this.#end)} `
      this.#from = start
    }
    this.#start = start
    this.#end = end
  }

  /** Writes something else in the place of what begins at the token that was reached. */
  put(written: string, end: number): void {
    this.#part += this.#text.slice(this.#from, this.#start) + written
    this.#from = this.#end = end
  }

  value(value: TypedValue, end: number): void {
    this.put('', end)
    this.#texts.push(this.#part)
    this.#values.push(value)
    this.#part = ''
  }

  statement(end: number): Statement {
    const last = this.#part + this.#text.slice(this.#from, end)
    return { texts: [...this.#texts, last], values: this.#values }
  }
}

interface Place {
  readonly name: string
  readonly typeText: string
  readonly type: SqlType | null
  /** Index of the closing brace. */
  readonly last: number
}

const PLACE_TOKENS_MAX = 40

/** `{` name `:` … `}` without braces inside. */
function placeAt(text: string, tokens: readonly Token[], at: number): Place | null {
  const name = tokens[at + 1]
  if (name?.kind !== 'word' || !isSymbol(text, tokens[at + 2], ':')) return null
  for (let last = at + 3; last < tokens.length && last - at < PLACE_TOKENS_MAX; last++) {
    if (isSymbol(text, tokens[last], '{')) return null
    if (!isSymbol(text, tokens[last], '}')) continue
    const typeText = text.slice(tokens[at + 2]!.end, tokens[last]!.start).trim()
    return { name: text.slice(name.start, name.end), typeText, type: parseType(typeText), last }
  }
  return null
}

/** The value; null when this is no place after all. */
function bind(place: Place, parameters: ReadonlyMap<string, string>): Checked<TypedValue | null> {
  const { name, type, typeText } = place
  const given = parameters.get(name)
  if (type === null)
    return given === undefined
      ? checked(null)
      : fail('UNKNOWN_TYPE', `parameter ${name} cannot be of type ${typeText.slice(0, 60)}`)
  if (given === undefined)
    return fail('UNKNOWN_QUERY_PARAMETER', `query parameter ${name} is not set`)
  const value = parseValue(type, given)
  return value === null
    ? fail('BAD_QUERY_PARAMETER', `the value of parameter ${name} is no ${type.name}`)
    : checked(value)
}

/** A literal or a name that DuckDB would read otherwise, in its own quotes; null for all others. */
function requotedForDuckdb(text: string, { kind, start, end }: Token): string | null {
  const quote = text.charAt(start)
  if (kind !== 'quoted' && !(kind === 'string' && quote === "'")) return null
  const written = text.slice(start, end)
  if (quote !== '`' && !written.includes('\\')) return null
  // The reading refused what is no text.
  const plain = readQuoted(written) ?? ''
  return kind === 'quoted' ? duckdbName(plain) : duckdbString(plain)
}
