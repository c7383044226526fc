// SQL expressions that render one DuckDB value as ClickHouse's text, nested values included.
// Thread: main of a query process. Pure.
import type { DuckDBDecimalType, DuckDBMapType, DuckDBType } from '@duckdb/node-api'
import { DuckDBTypeId } from '@duckdb/node-api/lib/DuckDBTypeId.js'
import type { OutputOptions } from '../formats/formats.ts'
import { jsonText } from '../formats/layouts.ts'
import { duckdbString } from '../sql/quoting.ts'
import { elementOf, fieldsOf, isHuge, kindOf, timeDigits } from './result-types.ts'

export interface TextStyle {
  readonly nested: 'json' | 'jsonTree' | 'quoted' | 'xml'
  readonly cell: 'json' | 'jsonText' | 'csv' | 'escaped' | 'raw' | 'quoted' | 'xml'
  readonly options: OutputOptions
}

/** A text, NULL when the value is, and the quotes around it. */
export interface QuotedText {
  readonly sql: string
  readonly quote: '' | '"' | "'"
}

/** `depth` is the indent of JSON trees. */
export function textOf(
  type: DuckDBType,
  value: string,
  style: TextStyle,
  depth: number,
): QuotedText {
  if (kindOf(type) !== 'nested') return scalarText(type, value, style)
  const sql = compositeSql(type, value, { ...style, cell: cellOfNested[style.nested] }, depth)
  if (style.cell === 'jsonText') return { sql: jsonSql(sql), quote: '' }
  return style.cell === 'csv' ? { sql: csvSql(sql), quote: '"' } : { sql, quote: '' }
}

const cellOfNested = { json: 'json', jsonTree: 'json', quoted: 'quoted', xml: 'xml' } as const

function scalarText(type: DuckDBType, value: string, { cell, options }: TextStyle): QuotedText {
  const kind = kindOf(type)
  const sql = plainSql(type, value, options)
  const isText = kind === 'text'
  switch (cell) {
    case 'json':
      return jsonScalar(type, value, sql, options)
    case 'jsonText':
      return isText ? { sql: jsonSql(sql), quote: '' } : { sql, quote: '"' }
    case 'csv':
      return { sql: isText ? csvSql(sql) : sql, quote: isText || kind === 'time' ? '"' : '' }
    case 'escaped':
      return { sql: isText ? escapedSql(sql) : sql, quote: '' }
    case 'quoted':
      return { sql: isText ? escapedSql(sql) : sql, quote: isText || kind === 'time' ? "'" : '' }
    case 'xml':
      return {
        sql: isText ? `replace(replace(${sql}, '&', '&amp;'), '<', '&lt;')` : sql,
        quote: '',
      }
    default:
      return { sql, quote: '' }
  }
}

function jsonScalar(
  type: DuckDBType,
  value: string,
  sql: string,
  { quotes64, quotesDenormals, quotesFloats, quotesDecimals }: OutputOptions,
): QuotedText {
  const quotedIf = (isQuoted: boolean | undefined): QuotedText => {
    return { sql, quote: isQuoted === true ? '"' : '' }
  }
  switch (kindOf(type)) {
    case 'text':
      return { sql: jsonSql(sql), quote: '' }
    case 'time':
      return quotedIf(true)
    case 'big':
      return quotedIf(quotes64 || isHuge(type))
    case 'decimal':
      return quotedIf(quotesDecimals)
    case 'float': {
      // ClickHouse quotes the null of a quoted float as well.
      const quote = quotesFloats === true ? '"' : ''
      const none = quotesDenormals !== true ? `'null'` : quote === '' ? `'"' || ${sql} || '"'` : sql
      return { sql: `CASE WHEN isfinite(${value}) THEN ${sql} ELSE ${none} END`, quote }
    }
    default:
      return quotedIf(false)
  }
}

/** The text with its quotes; NULL when the value is. */
function quotedSql({ sql, quote }: QuotedText): string {
  const literal = duckdbString(quote)
  return quote === '' ? sql : `${literal} || ${sql} || ${literal}`
}

/** The text of a scalar, not escaped. */
function plainSql(type: DuckDBType, value: string, { times }: OutputOptions): string {
  const text = `CAST(${value} AS VARCHAR)`
  const digits = timeDigits(type)
  if (digits >= 0) return timeSql(type, value, digits, times ?? 'simple')
  switch (kindOf(type)) {
    case 'float':
      return `float_text(${text})`
    case 'decimal':
      return (type as DuckDBDecimalType).scale === 0 ? text : `rtrim(rtrim(${text}, '0'), '.')`
    case 'text':
      return type.typeId === DuckDBTypeId.VARCHAR ? value : text
    default:
      return text
  }
}

/**
 * Shared by all queries of a process. DuckDB writes exponents from 1e16 and below 1e-4, with two
 * digits and a sign; ClickHouse from 1e21 and below 1e-6, without.
 */
export const renderingMacros = [
  `CREATE OR REPLACE MACRO float_text(t) AS CASE
    WHEN contains(t, 'e') THEN float_of(
      CASE WHEN t[1] = '-' THEN '-' ELSE '' END,
      regexp_replace(t, '^-|\\.|e.*$', '', 'g'),
      CAST(regexp_extract(t, 'e(.*)$', 1) AS INTEGER))
    WHEN ends_with(t, '.0') THEN left(t, length(t) - 2)
    ELSE t END`,
  `CREATE OR REPLACE MACRO float_of(sign, digits, exponent) AS sign || CASE
    WHEN exponent BETWEEN -6 AND -1 THEN '0.' || repeat('0', -exponent - 1) || digits
    WHEN exponent BETWEEN 0 AND 20 THEN rpad(digits, exponent + 1, '0')
    ELSE concat(digits[1], CASE WHEN length(digits) > 1 THEN '.' || digits[2:] END, 'e', exponent)
    END`,
]

const clock = '%Y-%m-%d %H:%M:%S'
const fractions: Readonly<Record<number, string>> = { 3: '.%g', 6: '.%f', 9: '.%n' }

function timeSql(
  { typeId }: DuckDBType,
  value: string,
  digits: number,
  times: NonNullable<OutputOptions['times']>,
): string {
  const isZoned = typeId === DuckDBTypeId.TIMESTAMP_TZ
  if (times === 'unix_timestamp') {
    if (digits === 0) return `CAST(CAST(epoch(${value}) AS BIGINT) AS VARCHAR)`
    const unit = 10 ** digits
    const count = `${digits === 3 ? 'epoch_ms' : digits === 6 ? 'epoch_us' : 'epoch_ns'}(${value})`
    const part = `lpad(CAST(${count} % ${unit} AS VARCHAR), ${digits}, '0')`
    return `CAST(${count} // ${unit} AS VARCHAR) || '.' || ${part}`
  }
  if (times === 'simple' && digits === 0) return `CAST(${value} AS VARCHAR)`
  const plain = isZoned ? `timezone('UTC', ${value})` : value
  const known = digits === 0 || digits === 3 ? `CAST(${plain} AS TIMESTAMP)` : plain
  const pattern = clock + (fractions[digits] ?? '')
  return `strftime(${known}, '${times === 'iso' ? `${pattern.replace(' ', 'T')}Z` : pattern}')`
}

/** `[open, between, close]`, also for an empty value. */
type Frame = readonly [string, string, string]

function frameOf(
  { nested }: TextStyle,
  kind: 'list' | 'tuple' | 'map' | 'row',
  depth: number,
): Frame {
  if (nested === 'xml') {
    const tag = kind === 'list' ? 'array' : kind === 'map' ? 'map' : 'tuple'
    return [`<${tag}><elem>`, '</elem><elem>', `</elem></${tag}>`]
  }
  const isObject = kind === 'map' || kind === 'row'
  if (nested === 'quoted')
    return kind === 'tuple' ? ['(', ',', ')'] : isObject ? ['{', ',', '}'] : ['[', ',', ']']
  const [open, close] = isObject ? ['{', '}'] : ['[', ']']
  if (nested === 'json') return [open!, ',', close!]
  const indent = `\n${'\t'.repeat(depth + 1)}`
  return [open! + indent, `,${indent}`, `\n${'\t'.repeat(depth)}${close}`]
}

function compositeSql(type: DuckDBType, value: string, style: TextStyle, depth: number): string {
  const none = style.nested.startsWith('json')
    ? "'null'"
    : style.nested === 'xml'
      ? "'\\N'"
      : "'NULL'"
  const inner = (item: DuckDBType, of: string) =>
    `coalesce(${quotedSql(textOf(item, of, style, depth + 1))}, ${none})`
  const element = elementOf(type)
  if (element !== null) {
    if (isNaturalJson(type, style)) return jsonSql(value)
    const isInline = style.nested === 'jsonTree' && kindOf(element) !== 'nested'
    const frame = frameOf(isInline ? { ...style, nested: 'json' } : style, 'list', depth)
    const item = itemName(value)
    return joined(frame, value, item, inner(element, item))
  }
  if (type.typeId === DuckDBTypeId.MAP) {
    const { keyType, valueType } = type as DuckDBMapType
    const item = itemName(value)
    const entries = `map_entries(${value})`
    const entry = entrySql(style, keyType, `${item}.key`, inner(valueType, `${item}.value`))
    return joined(frameOf(style, 'map', depth), entries, item, entry)
  }
  const fields = fieldsOf(type, value)
  const isNamed = fields.every(({ name }) => name !== '')
  const isObject =
    isNamed && style.nested.startsWith('json') && style.options.tuplesAsArrays !== true
  const [open, between, close] = frameOf(style, isObject ? 'row' : 'tuple', depth)
  const colon = style.nested === 'jsonTree' ? ': ' : ':'
  const parts = fields.flatMap((field, at) => {
    const lead = (at === 0 ? open : between) + (isObject ? jsonText(field.name) + colon : '')
    return [duckdbString(lead), inner(field.type, field.value)]
  })
  const text = `concat(${[...parts, duckdbString(close)].join(', ')})`
  return `CASE WHEN ${value} IS NOT NULL THEN ${text} END`
}

function entrySql(style: TextStyle, keyType: DuckDBType, key: string, value: string): string {
  if (style.nested === 'xml') {
    const text = quotedSql(scalarText(keyType, key, style))
    return `concat('<key>', ${text}, '</key><value>', ${value}, '</value>')`
  }
  if (style.nested === 'quoted')
    return `concat(${quotedSql(textOf(keyType, key, style, 0))}, ':', ${value})`
  const text = quotedSql(scalarText(keyType, key, { ...style, cell: 'jsonText' }))
  return `concat(${text}, ${style.nested === 'jsonTree' ? "': '" : "':'"}, ${value})`
}

/** A list's items between the parts of a frame; an empty list has no items to frame. */
function joined([open, between, close]: Frame, list: string, item: string, made: string): string {
  const items = `list_transform(${list}, lambda ${item}: ${made})`
  const text = `array_to_string(${items}, ${duckdbString(between)})`
  const all = `${duckdbString(open)} || ${text} || ${duckdbString(close)}`
  const empty = open.replace('<elem>', '').trim() + close.replace('</elem>', '').trim()
  return empty === open + close
    ? all
    : `CASE WHEN len(${list}) = 0 THEN ${duckdbString(empty)} ELSE ${all} END`
}

/** Lists whose JSON DuckDB writes as ClickHouse does. */
function isNaturalJson(type: DuckDBType, style: TextStyle): boolean {
  if (!style.nested.startsWith('json')) return false
  const element = elementOf(type)
  if (element !== null)
    return (
      (style.nested === 'json' || kindOf(element) !== 'nested') && isNaturalJson(element, style)
    )
  const kind = kindOf(type)
  if (kind === 'big') return !style.options.quotes64 && !isHuge(type)
  return kind === 'number' || kind === 'bool' || type.typeId === DuckDBTypeId.VARCHAR
}

/** Slashes are escaped in the bytes of all rows at once, by query-runner.ts. */
function jsonSql(text: string): string {
  return `CAST(to_json(${text}) AS VARCHAR)`
}

function csvSql(text: string): string {
  const doubled = `replace(${text}, '"', '""')`
  return isColumn(text)
    ? `CASE WHEN contains(${text}, '"') THEN ${doubled} ELSE ${text} END`
    : doubled
}

/** Characters with a short escape in ClickHouse's text, the backslash first. */
const escapes = [92, 39, 0, 8, 9, 10, 12, 13] as const
const letters: Readonly<Record<number, string>> = {
  0: '0',
  8: 'b',
  9: 't',
  10: 'n',
  12: 'f',
  13: 'r',
}

function escapedSql(text: string): string {
  const escaped = escapes.reduce<string>((made, code) => {
    const letter = letters[code] === undefined ? `chr(${code})` : `'${letters[code]}'`
    return `replace(${made}, chr(${code}), '\\' || ${letter})`
  }, text)
  if (!isColumn(text)) return escaped
  // JSON escapes all of them but the quote: a text of the same length in JSON has none.
  const isPlain = `strlen(CAST(to_json(${text}) AS VARCHAR)) = strlen(${text}) + 2`
  return `CASE WHEN ${isPlain} AND NOT contains(${text}, '''') THEN ${text} ELSE ${escaped} END`
}

function isColumn(value: string): boolean {
  return /^[\w.]+$/.test(value)
}

/** Nested lambdas need distinct parameter names. */
function itemName(value: string): string {
  const used = [...value.matchAll(/\bi(\d+)_/g)].map((found) => Number(found[1]))
  return `i${Math.max(0, ...used) + 1}_`
}
