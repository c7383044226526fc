// Builds the statement for the engine: removes comments, binds values to `{name:Type}` parameters.
// Thread: any (pure). Braces are a parameter only with a valid type: DuckDB has struct literals.
import type { Statement, TypedValue } from '../engine.ts'
import { type Checked, checked, fail } from '../exceptions.ts'
import { type Dialect, hasComment, isSymbol, type Token } from './lexer.ts'
import { duckdbName, duckdbString, readQuoted } from './quoting.ts'
import type { Reading } from './reading.ts'
import { parseType, type SqlType } from './types.ts'
import { parseValue } from './values.ts'

/**
 * Most characters of all bound values. One value may be used thousands of times: without a bound
 * a short request becomes a statement of gigabytes.
 */
export const VALUE_CHARS_MAX = 1_048_576

/** Unused parameters are ignored, as in ClickHouse. */
export function bindParameters(
  { text, tokens }: Reading,
  parameters: ReadonlyMap<string, string>,
  dialect: Dialect,
): Checked<Statement> {
  const made = new Making(text, tokens[0]?.start ?? 0)
  let chars = 0
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at]!
    made.reach(token)
    const parameter = isSymbol(text, token, '{') ? parameterAt(text, tokens, at) : null
    if (parameter === null) {
      const requoted = dialect === 'duckdb' ? requotedForDuckdb(text, token) : null
      if (requoted !== null) made.put(requoted, token.end)
      continue
    }
    chars += parameters.get(parameter.name)?.length ?? 0
    if (chars > VALUE_CHARS_MAX)
      return fail('BAD_QUERY_PARAMETER', `values have at most ${VALUE_CHARS_MAX} characters in all`)
    const bound = bind(parameter, parameters)
    if (!bound.ok) return bound
    if (bound.value === null) continue
    at = parameter.last
    const { end } = tokens[at]!
    if (bound.value.type === 'Identifier') made.put(`"${String(bound.value.value)}"`, end)
    else made.value(bound.value, end)
  }
  return checked(made.statement(tokens.at(-1)?.end ?? 0))
}

/** Copies the text in long ranges, because a query may have thousands of tokens. */
class Making {
  readonly #text: string
  readonly #texts: string[] = []
  readonly #values: TypedValue[] = []
  #part = ''
  /** Start and end of the range that is to be copied next. */
  #from: number
  #end: number
  #start = 0

  constructor(text: string, from: number) {
    this.#text = text
    this.#from = this.#end = from
  }

  /** Advances to a token; a comment before it becomes a space. */
  reach({ start, end }: Token): void {
    if (start - this.#end > 1 && hasComment(this.#text, this.#end, start)) {
      this.#part += `${this.#text.slice(this.#from, this.#end)} `
      this.#from = start
    }
    this.#start = start
    this.#end = end
  }

  /** Replaces the text that starts at the current token. */
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

interface Parameter {
  readonly name: string
  readonly typeText: string
  readonly type: SqlType | null
  /** Index of the closing brace. */
  readonly last: number
}

const PLACE_TOKENS_MAX = 40

/** `{` name `:` … `}` without braces inside. */
function parameterAt(text: string, tokens: readonly Token[], at: number): Parameter | null {
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

/** The value; null when the braces are not a parameter. */
function bind(
  parameter: Parameter,
  parameters: ReadonlyMap<string, string>,
): Checked<TypedValue | null> {
  const { name, type, typeText } = parameter
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

/** A literal or a name that DuckDB would read differently, requoted; null for all others. */
function requotedForDuckdb(text: string, { kind, start, end }: Token): string | null {
  const quote = text.charAt(start)
  if (kind !== 'quoted' && !(kind === 'string' && quote === "'")) return null
  const written = text.slice(start, end)
  if (quote !== '`' && !written.includes('\\')) return null
  // `readStatement` already refused invalid literals.
  const plain = readQuoted(written) ?? ''
  return kind === 'quoted' ? duckdbName(plain) : duckdbString(plain)
}
