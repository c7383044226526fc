// Makes the statement that an engine runs: comments are gone, `{name:Type}` places are values.
// Thread: any (pure). A place is one only when its type is one: DuckDB writes structs in braces.
import type { Statement, TypedValue } from '../engine.ts'
import { type Checked, checked, fail } from '../exceptions.ts'
import { type Dialect, symbolOf, type Token } from './lexer.ts'
import type { Reading } from './reading.ts'
import { parseType, type SqlType } from './types.ts'
import { parseValue } from './values.ts'

/** Parameters that no place asks for are left alone, as ClickHouse does. */
export function bindPlaces(
  { text, tokens }: Reading,
  parameters: ReadonlyMap<string, string>,
  dialect: Dialect,
): Checked<Statement> {
  const texts: string[] = []
  const values: TypedValue[] = []
  let part = ''
  let end = tokens[0]?.start ?? 0
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at]!
    if (token.start > end) part += ' '
    end = token.end
    const place = symbolOf(text, token) === '{' ? placeAt(text, tokens, at) : null
    if (place === null) {
      part += textOf(text, token, dialect)
      continue
    }
    at = place.last
    end = tokens[at]!.end
    const bound = bind(place, parameters)
    if (!bound.ok) return bound
    if (bound.value === null) {
      part += text.slice(token.start, end)
    } else if (bound.value.type === 'Identifier') part += `"${String(bound.value.value)}"`
    else {
      texts.push(part)
      values.push(bound.value)
      part = ''
    }
  }
  return checked({ texts: [...texts, part], values })
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
  if (name?.kind !== 'word' || symbolOf(text, tokens[at + 2]) !== ':') return null
  for (let last = at + 3; last < tokens.length && last - at < PLACE_TOKENS_MAX; last++) {
    const symbol = symbolOf(text, tokens[last])
    if (symbol === '{') return null
    if (symbol !== '}') continue
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

/** Tools quote names with backticks, which DuckDB does not know. */
function textOf(text: string, token: Token, dialect: Dialect): string {
  const written = text.slice(token.start, token.end)
  if (token.kind !== 'quoted' || dialect !== 'duckdb' || !written.startsWith('`')) return written
  return `"${written.slice(1, -1).replaceAll('``', '`').replaceAll('"', '""')}"`
}
