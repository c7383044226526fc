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
  const texts: string[] = []
  const values: TypedValue[] = []
  let made = ''
  let chars = 0
  for (let at = 0, end = tokens[0]?.start ?? 0; at < tokens.length; end = tokens[at++]!.end) {
    const token = tokens[at]!
    const gap = token.start - end > 1 && hasComment(text, end, token.start)
    made += gap ? ' ' : text.slice(end, token.start)
    const parameter = isSymbol(text, token, '{') ? parameterAt(text, tokens, at) : null
    chars += (parameter && parameters.get(parameter.name)?.length) ?? 0
    if (chars > VALUE_CHARS_MAX)
      return fail('BAD_QUERY_PARAMETER', `values have at most ${VALUE_CHARS_MAX} characters in all`)
    const bound = parameter === null ? checked(null) : bind(parameter, parameters)
    if (!bound.ok) return bound
    if (parameter === null || bound.value === null) {
      made += writtenFor(dialect, text, token)
      continue
    }
    at = parameter.last
    if (bound.value.type === 'Identifier') made += `"${String(bound.value.value)}"`
    else {
      texts.push(made)
      values.push(bound.value)
      made = ''
    }
  }
  return checked({ texts: [...texts, made], values })
}

interface Parameter {
  readonly name: string
  readonly typeText: string
  readonly type: SqlType | null
  /** Index of the closing brace. */
  readonly last: number
}

const PARAMETER_TOKENS_MAX = 40

/** `{` name `:` … `}` without braces inside. */
function parameterAt(text: string, tokens: readonly Token[], at: number): Parameter | null {
  const name = tokens[at + 1]
  if (name?.kind !== 'word' || !isSymbol(text, tokens[at + 2], ':')) return null
  for (let last = at + 3; last < tokens.length && last - at < PARAMETER_TOKENS_MAX; last++) {
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

/** The token; for DuckDB a literal or a name that it would read differently is requoted. */
function writtenFor(dialect: Dialect, text: string, { kind, start, end }: Token): string {
  const written = text.slice(start, end)
  const quote = text.charAt(start)
  const isQuoted = kind === 'quoted' || (kind === 'string' && quote === "'")
  if (dialect !== 'duckdb' || !isQuoted || (quote !== '`' && !written.includes('\\')))
    return written
  // `readStatement` already refused invalid literals.
  const plain = readQuoted(written) ?? ''
  return kind === 'quoted' ? duckdbName(plain) : duckdbString(plain)
}
