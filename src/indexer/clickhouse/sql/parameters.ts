// Builds the statement for the engine: binds values to `{name:Type}`.
// For ClickHouse comments are removed and names are inserted; DuckDB's engine parses the text as
// it was written, so that the positions in its errors are those of the customer.
import { type Checked, checked, fail } from '../exceptions.ts'
import { hasComment, isSymbol, type Token, unescaped } from './lexer.ts'
import type { Reading } from './reading.ts'
import {
  type NestedType,
  parseType,
  type Scalar,
  type ScalarName,
  type SqlType,
  splitOutside,
} from './types.ts'

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

// Checks the text of a query parameter against its type and writes it in one canonical form.
// Values are written as in ClickHouse: `\N` is NULL, strings have backslash
// escapes, arrays are `['a','b']`.

/** The value, or null when the text is not a value of the type. An item is inside an array. */
export function parseValue(type: SqlType, text: string, isItem = false): TypedValue | null {
  if ('of' in type) {
    if (type.kind !== 'nullable') return parseNested(type, text.trim())
    if (isItem ? /^null$/i.test(text) : text === '\\N') return { type: type.name, value: null }
    const inner = parseValue(type.of[0]!, text, isItem)
    return inner === null ? null : { type: type.name, value: inner.value }
  }
  const isText = type.kind === 'string' || type.kind === 'fixed-string'
  const plain = isItem ? itemText(text, isText) : isText ? unescaped(text) : text
  const value = plain === null ? null : parsers[type.kind](plain, type)
  return value === null ? null : { type: type.name, value }
}

/** Texts have quotes inside an array; other values may have them. */
function itemText(text: string, isText: boolean): string | null {
  if (/^'(?:[^'\\]|\\.)*'$/s.test(text)) return unescaped(text.slice(1, -1))
  return isText ? null : text
}

/** Canonical text of one scalar, which both engines read the same way; null when invalid. */
const parsers: Readonly<Record<ScalarName, (text: string, type: Scalar) => string | null>> = {
  integer: parseInteger,
  float: parseFloatText,
  bool: (text) => (/^(1|true)$/i.test(text) ? 'true' : /^(0|false)$/i.test(text) ? 'false' : null),
  string: (text) => text,
  'fixed-string': (text, { precision = 0 }) => (Buffer.byteLength(text) <= precision ? text : null),
  uuid: (text) =>
    /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text) ? text.toLowerCase() : null,
  date: (text) => (/^\d{4}-\d\d-\d\d$/.test(text) && isDay(text) ? text : null),
  datetime: (text) => parseTime(text, 0),
  datetime64: (text, { scale = 0 }) => parseTime(text, scale),
  decimal: parseDecimal,
  // By name or by number.
  enum: (text, { values = new Map<string, string>() }) =>
    values.has(text) ? text : ([...values].find(([, number]) => number === text)?.[0] ?? null),
  identifier: (text) => (/^[A-Za-z_]\w{0,127}(\.[A-Za-z_]\w{0,127})?$/.test(text) ? text : null),
}

function parseInteger(text: string, { min = 0n, max = 0n }: Scalar): string | null {
  if (!/^[+-]?\d{1,40}$/.test(text)) return null
  const value = BigInt(text.replace('+', ''))
  return value >= min && value <= max ? String(value) : null
}

function parseFloatText(text: string): string | null {
  const special = /^([+-]?)(nan|inf|infinity)$/i.exec(text)
  if (special !== null) {
    if (/nan/i.test(text)) return 'nan'
    return special[1] === '-' ? '-inf' : 'inf'
  }
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,4})?$/i.test(text) ? text.replace(/^\+/, '') : null
}

function parseDecimal(text: string, { precision = 0, scale = 0 }: Scalar): string | null {
  const form = /^([+-]?)0*(\d*)(?:\.(\d*))?$/.exec(text)
  if (form === null || !/\d/.test(text)) return null
  const [, sign = '', whole = '', rest = ''] = form
  const fraction = rest.replace(/0+$/, '')
  if (fraction.length > scale || whole.length > precision - scale) return null
  return `${sign === '-' ? '-' : ''}${whole || '0'}${fraction === '' ? '' : `.${fraction}`}`
}

/** `2026-01-02 03:04:05[.678]`, with `T` and `Z` as well, or seconds since 1970; UTC. */
function parseTime(text: string, scale: number): string | null {
  const seconds = /^(\d{1,12})(?:\.(\d{1,9}))?$/.exec(text)
  if (seconds !== null) {
    const [, whole = '', fraction = ''] = seconds
    const date = new Date(Number(whole) * 1000)
    if (Number.isNaN(date.getTime()) || date.getUTCFullYear() > 9999) return null
    return withFraction(date.toISOString().slice(0, 19).replace('T', ' '), fraction, scale)
  }
  const form = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?Z?)?$/.exec(text)
  if (form === null) return null
  const [, day = '', hours = '00', minutes = '00', secs = '00', fraction = ''] = form
  if (!isDay(day) || Number(hours) > 23 || Number(minutes) > 59 || Number(secs) > 59) return null
  return withFraction(`${day} ${hours}:${minutes}:${secs}`, fraction, scale)
}

function withFraction(text: string, fraction: string, scale: number): string | null {
  if (scale === 0) return text
  return `${text}.${fraction.slice(0, scale).padEnd(scale, '0')}`
}

function isDay(text: string): boolean {
  const date = new Date(`${text}T00:00:00Z`)
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text)
}

const brackets = { array: '[]', tuple: '()', map: '{}', nullable: '' } as const

/** `[1,2]`, `('a',NULL)`, `{'k':[1]}`; keys and values of a map follow one another. */
function parseNested(type: NestedType, text: string): TypedValue | null {
  const [open, close] = brackets[type.kind]
  if (text.length < 2 || !text.startsWith(open!) || !text.endsWith(close!)) return null
  const inside = text.slice(1, -1).trim()
  const parts = inside === '' ? [] : splitOutside(inside, ',')
  const items =
    type.kind === 'map' ? parts?.flatMap((part) => splitOutside(part, ':') ?? '') : parts
  if (items === null || items === undefined) return null
  const isComplete =
    type.kind === 'tuple'
      ? items.length === type.of.length
      : items.length === (parts?.length ?? 0) * type.of.length
  if (!isComplete) return null
  const values: TypedValue[] = []
  for (const [index, item] of items.entries()) {
    const value = parseValue(type.of[index % type.of.length]!, item, true)
    if (value === null) return null
    values.push(value)
  }
  return { type: type.name, value: values }
}

// A statement and the values of its parameters.

/** The value of a `{name:Type}` parameter, checked against its type. */
export interface TypedValue {
  /** ClickHouse type name: `UInt64`, `Array(String)`, `Nullable(DateTime64(3))`. */
  readonly type: string
  readonly value: string | readonly TypedValue[] | null
  /** The braces as written, for an engine that parses the statement itself. */
  readonly source?: string
}

/** One statement without FORMAT and SETTINGS; `texts` has one item more than `values`. */
export interface Statement {
  readonly texts: readonly string[]
  readonly values: readonly TypedValue[]
}
