// Builds the statement for the engine: binds values to `{name:Type}`.
// For ClickHouse comments are removed and names are inserted; DuckDB's engine parses the text as
// it was written, so that the positions in its errors are those of the customer.
import { type Checked, checked, fail } from '../exceptions.ts'
import { hasComment, isSymbol, type Token } from './lexer.ts'
import type { Reading } from './reading.ts'
import type { Statement, TypedValue } from './statement.ts'
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
  engine: 'duckdb' | 'clickhouse',
): Checked<Statement> {
  const texts: string[] = []
  const values: TypedValue[] = []
  let made = ''
  let chars = 0
  const isWritten = engine === 'duckdb'
  for (
    let at = 0, end = isWritten ? 0 : (tokens[0]?.start ?? 0);
    at < tokens.length;
    end = tokens[at++]!.end
  ) {
    const token = tokens[at]!
    const gap = !isWritten && token.start - end > 1 && hasComment(text, end, token.start)
    made += gap ? ' ' : text.slice(end, token.start)
    const parameter = isSymbol(text, token, '{') ? parameterAt(text, tokens, at) : null
    chars += (parameter && parameters.get(parameter.name)?.length) ?? 0
    if (chars > VALUE_CHARS_MAX)
      return fail('BAD_QUERY_PARAMETER', `values have at most ${VALUE_CHARS_MAX} characters in all`)
    const bound = parameter === null ? checked(null) : bind(parameter, parameters)
    if (!bound.ok) return bound
    if (parameter === null || bound.value === null) {
      made += text.slice(token.start, token.end)
      continue
    }
    at = parameter.last
    const source = isWritten ? { source: text.slice(token.start, tokens[at]!.end) } : {}
    if (bound.value.type === 'Identifier' && !isWritten)
      made += `"${String(bound.value.value).replace('.', '"."')}"`
    else {
      texts.push(made)
      values.push({ ...bound.value, ...source })
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

const PARAMETER_TOKENS_MAX = 200

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
    return fail('UNKNOWN_QUERY_PARAMETER', `Substitution \`${name}\` is not set`)
  const value = parseValue(type, given)
  return value === null
    ? fail(
        'BAD_QUERY_PARAMETER',
        `Value cannot be parsed as ${type.name} for query parameter '${name}'`,
      )
    : checked(value)
}
