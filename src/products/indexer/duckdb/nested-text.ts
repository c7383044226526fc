// SQL expressions that render one DuckDB value as ClickHouse's text, nested values included.
// Thread: main of a query process. Pure.
import {
  type DuckDBDecimalType,
  type DuckDBMapType,
  type DuckDBType,
  DuckDBTypeId,
} from '@duckdb/node-api'
import type { OutputOptions } from '../formats.ts'
import { jsonText } from '../layouts.ts'
import { duckdbString } from '../sql/quoting.ts'
import { elementOf, fieldsOf, isHuge, kindOf, timeDigits } from './result-types.ts'

export interface TextStyle {
  readonly nested: 'json' | 'jsonTree' | 'quoted' | 'xml'
  readonly cell: 'json' | 'jsonText' | 'csv' | 'escaped' | 'raw' | 'quoted' | 'xml'
  readonly options: OutputOptions
}

/** The text of a cell; NULL when the value is. `depth` is the indent of JSON trees. */
export function nestedSql(
  type: DuckDBType,
  value: string,
  style: TextStyle,
  depth: number,
): string {
  if (kindOf(type) !== 'nested') return scalarSql(type, value, style)
  const text = compositeSql(type, value, { ...style, cell: cellOfNested[style.nested] }, depth)
  if (style.cell === 'jsonText') return jsonSql(text, style.options)
  return style.cell === 'csv' ? csvSql(text) : text
}

const cellOfNested = { json: 'json', jsonTree: 'json', quoted: 'quoted', xml: 'xml' } as const

function scalarSql(type: DuckDBType, value: string, { cell, options }: TextStyle): string {
  const kind = kindOf(type)
  const text = plainSql(type, value, options)
  switch (cell) {
    case 'json':
      return jsonScalarSql(type, value, text, options)
    case 'jsonText':
      return kind === 'text' ? jsonSql(text, options) : `'"' || ${text} || '"'`
    case 'csv':
      if (kind === 'time') return `'"' || ${text} || '"'`
      return kind === 'text' ? csvSql(text) : text
    case 'escaped':
      return kind === 'text' ? escapedSql(text) : text
    case 'quoted':
      if (kind === 'time') return `'''' || ${text} || ''''`
      return kind === 'text' ? `'''' || ${escapedSql(text)} || ''''` : text
    case 'xml':
      return kind === 'text' ? `replace(replace(${text}, '&', '&amp;'), '<', '&lt;')` : text
    default:
      return text
  }
}

function jsonScalarSql(
  type: DuckDBType,
  value: string,
  text: string,
  { quotes64, quotesDenormals, quotesFloats, quotesDecimals, ...rest }: OutputOptions,
): string {
  const quoted = `'"' || ${text} || '"'`
  switch (kindOf(type)) {
    case 'text':
      return jsonSql(text, { quotes64, ...rest })
    case 'time':
      return quoted
    case 'big':
      return quotes64 || isHuge(type) ? quoted : text
    case 'decimal':
      return quotesDecimals === true ? quoted : text
    case 'float': {
      if (quotesFloats === true && quotesDenormals === true) return quoted
      const finite = quotesFloats === true ? quoted : text
      // ClickHouse quotes this null as well.
      const none = quotesFloats === true ? `'"null"'` : 'NULL'
      const rest = quotesDenormals === true ? quoted : none
      return `CASE WHEN isfinite(${value}) THEN ${finite} ELSE ${rest} END`
    }
    default:
      return text
  }
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
    `coalesce(${nestedSql(item, of, style, depth + 1)}, ${none})`
  const element = elementOf(type)
  if (element !== null) {
    if (isNaturalJson(type, style))
      return slashed(`CAST(to_json(${value}) AS VARCHAR)`, style.options)
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
    const text = scalarSql(keyType, key, style)
    return `concat('<key>', ${text}, '</key><value>', ${value}, '</value>')`
  }
  if (style.nested === 'quoted')
    return `concat(${nestedSql(keyType, key, style, 0)}, ':', ${value})`
  const text = scalarSql(keyType, key, { ...style, cell: 'jsonText' })
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

function jsonSql(text: string, options: OutputOptions): string {
  const json = `CAST(to_json(${text}) AS VARCHAR)`
  if (options.keepsSlashes === true) return json
  // Only texts with a slash pay for its escape.
  return isColumn(text)
    ? `CASE WHEN contains(${text}, '/') THEN ${slashed(json, options)} ELSE ${json} END`
    : slashed(json, options)
}

function slashed(json: string, { keepsSlashes }: OutputOptions): string {
  return keepsSlashes === true ? json : `replace(${json}, '/', '\\/')`
}

function csvSql(text: string): string {
  const doubled = `replace(${text}, '"', '""')`
  const safe = isColumn(text)
    ? `CASE WHEN contains(${text}, '"') THEN ${doubled} ELSE ${text} END`
    : doubled
  return `'"' || ${safe} || '"'`
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
