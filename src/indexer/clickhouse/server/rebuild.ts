// Rebuilds a query for a ClickHouse server from our own tokens.
//
// The server sees only this output: every string and quoted name decoded and quoted again, plain
// words and numbers, known operators, one space between two tokens, no comment. So it cannot read
// a quote, a comment or a heredoc where the gate read something else.
import { clickhouseName, clickhouseString, readQuoted, symbolOf, type Token } from '../sql/lexer.ts'
import type { Statement, TypedValue } from '../sql/parameters.ts'

/** Replaces the tokens `first` to `last`, both included, by `text`. */
export interface Edit {
  readonly first: number
  readonly last: number
  readonly text: string
}

/** `tokens` are the valid tokens of `text`, without comments; edits do not overlap. */
export function rebuilt(
  text: string,
  tokens: readonly Token[],
  edits: readonly Edit[] = [],
): string {
  const parts: string[] = []
  const editAt = new Map(edits.map((edit) => [edit.first, edit]))
  for (let at = 0; at < tokens.length; at++) {
    const edit = editAt.get(at)
    parts.push(edit?.text ?? writtenToken(text, tokens[at]!))
    at = edit?.last ?? at
  }
  return parts.join(' ')
}

export function writtenToken(text: string, token: Token): string {
  const written = text.slice(token.start, token.end)
  // Reason for the fallback: an invalid literal was already refused when the query was read.
  if (token.kind === 'string') return clickhouseString(readQuoted(written) ?? '')
  return token.kind === 'quoted' ? clickhouseName(readQuoted(written) ?? '') : written
}

/** Symbols that the lexer knows for parameters and statements, but that no query contains. */
export function isForeignSymbol(text: string, token: Token): boolean {
  return ['{', '}', ';'].includes(symbolOf(text, token))
}

// Inserts parameter values into a query as literals of their types.
// Servers before 19.14 do not support parameters, so all versions get literals. The values were
// validated by sql/; they are quoted here so that nothing in them can be read as SQL.

/** The statement with its values as one string. `hasBool`: the server has the type. */
export function withLiterals({ texts, values }: Statement, hasBool: boolean): string {
  let text = texts[0] ?? ''
  for (const [index, value] of values.entries())
    text += literalAt(text, hasBool ? value : withoutBool(value)) + (texts[index + 1] ?? '')
  return text
}

/** Before 21.12 a Bool is a UInt8. */
function withoutBool({ type, value }: TypedValue): TypedValue {
  // Not the names of an Enum.
  const plain = type.replaceAll(/'(?:[^'\\]|\\.)*'|\bBool\b/g, (found) =>
    found === 'Bool' ? 'UInt8' : found,
  )
  if (plain === type || value === null) return { type: plain, value }
  if (typeof value !== 'string') return { type: plain, value: value.map(withoutBool) }
  return { type: plain, value: value === 'true' ? '1' : '0' }
}

/**
 * After LIMIT and similar words SQL requires a plain number without a cast; after IN an old server
 * takes a list and no array.
 */
function literalAt(before: string, value: TypedValue): string {
  const listed = /\bin\s*$/i.test(before.slice(-60)) ? listOf(value) : []
  if (listed.length > 0) return ` (${listed.map(item).join(', ')}) `
  const isCount = /\b(limit|offset|top|interval)\s*$|\blimit\s+\d+\s*,\s*$/i.test(before.slice(-60))
  if (isCount && typeof value.value === 'string' && /^-?\d+$/.test(value.value)) return value.value
  return ` ${literal(value)} `
}

/** The values of an array that need no cast; none for any other value. */
function listOf({ type, value }: TypedValue): readonly TypedValue[] {
  const isPlain = /^Array\((U?Int\d+|String)\)$/.test(type)
  return isPlain && value !== null && typeof value !== 'string' ? value : []
}

export function literal({ type, value }: TypedValue): string {
  const plain = /^Nullable\((.*)\)$/s.exec(type)?.[1] ?? type
  if (value === null)
    return `CAST(NULL AS ${type.startsWith('Nullable') ? type : `Nullable(${type})`})`
  if (typeof value !== 'string') return `CAST(${item({ type, value })} AS ${inUtc(type)})`
  if (plain === 'String') return clickhouseString(value)
  if (plain === 'Bool') return value
  return `CAST(${clickhouseString(value)} AS ${inUtc(plain)})`
}

/** Inside an array, a tuple or a map the surrounding cast sets the type. */
function item({ type, value }: TypedValue): string {
  if (value === null) return 'NULL'
  if (typeof value !== 'string') {
    const items = value.map(item).join(', ')
    if (type.startsWith('Map')) return `map(${items})`
    return type.startsWith('Tuple') ? `tuple(${items})` : `[${items}]`
  }
  if (/^U?Int\d+$/.test(type)) return value
  return type === 'Bool' ? value : clickhouseString(value)
}

/** All times here are UTC, whatever the server's own zone. */
function inUtc(type: string): string {
  return type
    .replaceAll(/\bDateTime(?!64|\()/g, "DateTime('UTC')")
    .replaceAll(/\bDateTime64\((\d)\)/g, "DateTime64($1, 'UTC')")
}
