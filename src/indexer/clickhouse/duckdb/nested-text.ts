// SQL expressions that render one DuckDB value as ClickHouse's text, nested values included.
// Thread: main of a query process. Pure.
import type {
  DuckDBArrayType,
  DuckDBConnection,
  DuckDBDecimalType,
  DuckDBListType,
  DuckDBMapType,
  DuckDBStructType,
  DuckDBType,
} from '@duckdb/node-api'
import { DuckDBTypeId } from '@duckdb/node-api/lib/DuckDBTypeId.js'
import type { OutputOptions } from '../formats/formats.ts'
import { type CellMode, jsonText, type Layout, rowNumber, rowRule } from '../formats/layouts.ts'
import { clickhouseName, duckdbName, duckdbString } from '../sql/lexer.ts'
import { movedTime, typeNames, unknown, zoneOf } from './typing.ts'

interface TextStyle {
  readonly nested: 'json' | 'jsonTree' | 'quoted' | 'xml'
  readonly cell: 'json' | 'jsonText' | 'csv' | 'escaped' | 'raw' | 'quoted' | 'xml'
  readonly options: OutputOptions
}

/** A text, NULL when the value is, and the quotes around it. */
interface QuotedText {
  readonly sql: string
  readonly quote: '' | '"' | "'"
}

/** `depth` is the indent of JSON trees. */
function textOf(type: DuckDBType, value: string, style: TextStyle, depth: number): QuotedText {
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
  const after = digits.get(type.typeId)
  if (after !== undefined) return timeSql(type, value, after, times ?? 'simple')
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

// Columns of a result: their DuckDB types, ClickHouse type names and the SQL of their values.

export interface DuckColumn {
  /** '' for the field of an unnamed tuple. */
  readonly name: string
  readonly type: DuckDBType
  /** SQL of its value in the wrapped statement. */
  readonly value: string
  /** ClickHouse's name of the type, where it is more exact than DuckDB's type. */
  readonly shown?: string
  /** Fields of a tuple. */
  readonly fields: readonly DuckColumn[]
}

type Kind = 'number' | 'big' | 'float' | 'bool' | 'decimal' | 'time' | 'nested' | 'text'

const kinds: readonly (readonly [RegExp, Kind])[] = [
  [/^U?(TINYINT|SMALLINT|INTEGER)$/, 'number'],
  [/^U?(BIGINT|HUGEINT)$/, 'big'],
  [/^(LIST|ARRAY|STRUCT|MAP)$/, 'nested'],
  [/^(DOUBLE|FLOAT)$/, 'float'],
  [/^BOOLEAN$/, 'bool'],
  [/^DECIMAL$/, 'decimal'],
  [/^(DATE|UUID|TIMESTAMP.*)$/, 'time'],
]
const kindByType = new Map(
  Object.values(DuckDBTypeId)
    .filter((id) => typeof id === 'number')
    .map((id) => [id, kinds.find(([types]) => types.test(DuckDBTypeId[id]))?.[1] ?? 'text']),
)

/** `time`: text without characters to escape. */
export function kindOf({ typeId }: DuckDBType): Kind {
  return kindByType.get(typeId) ?? 'text'
}

function isHuge({ typeId }: DuckDBType): boolean {
  return typeId === DuckDBTypeId.HUGEINT || typeId === DuckDBTypeId.UHUGEINT
}

/** Of a DateTime, after its seconds. */
const digits: ReadonlyMap<DuckDBTypeId, number> = new Map([
  [DuckDBTypeId.TIMESTAMP_S, 0],
  [DuckDBTypeId.TIMESTAMP_MS, 3],
  [DuckDBTypeId.TIMESTAMP, 6],
  [DuckDBTypeId.TIMESTAMP_TZ, 6],
  [DuckDBTypeId.TIMESTAMP_NS, 9],
])

export function columnOf(name: string, type: DuckDBType, value: string): DuckColumn {
  return { name, type, value, fields: fieldsOf(type, value) }
}

/** Fields of a tuple with the SQL that reads them; none for other types. */
export function fieldsOf(type: DuckDBType, value: string): readonly DuckColumn[] {
  if (type.typeId !== DuckDBTypeId.STRUCT) return []
  const { entryNames, entryTypes } = type as DuckDBStructType
  return entryTypes.map((entry, at) => {
    const name = entryNames[at]!
    const key = name === '' ? at + 1 : duckdbString(name)
    return columnOf(name, entry, `struct_extract(${value}, ${key})`)
  })
}

/** The element type of a list; null for other types. */
export function elementOf(type: DuckDBType): DuckDBType | null {
  if (type.typeId !== DuckDBTypeId.LIST && type.typeId !== DuckDBTypeId.ARRAY) return null
  return (type as DuckDBListType | DuckDBArrayType).valueType
}

/** ClickHouse's name of a type. */
export function typeName(type: DuckDBType): string {
  const element = elementOf(type)
  if (element !== null) return `Array(${typeName(element)})`
  switch (type.typeId) {
    case DuckDBTypeId.DECIMAL: {
      const { width, scale } = type as DuckDBDecimalType
      return `Decimal(${width}, ${scale})`
    }
    case DuckDBTypeId.MAP: {
      const { keyType, valueType } = type as DuckDBMapType
      return `Map(${typeName(keyType)}, ${typeName(valueType)})`
    }
    case DuckDBTypeId.STRUCT: {
      const fields = fieldsOf(type, '').map(({ name, type: entry }) => {
        const shown = name === '' || /^[a-z_]\w*$/i.test(name) ? name : clickhouseName(name)
        return `${shown} ${typeName(entry)}`.trim()
      })
      return `Tuple(${fields.join(', ')})`
    }
    default:
      return typeNames.get(DuckDBTypeId[type.typeId]) ?? 'String'
  }
}

/** Names and types of the result columns; errors of the statement itself are thrown here. */
export async function planned(
  connection: DuckDBConnection,
  sql: string,
  named: readonly { readonly name: string; readonly type: string }[],
): Promise<readonly DuckColumn[]> {
  const prepared = await connection.prepare(sql)
  try {
    return Array.from({ length: prepared.columnCount }, (_, at) => ({
      ...columnOf(named[at]?.name ?? prepared.columnName(at), prepared.columnType(at), `q.c${at}`),
      ...shownType(named[at]?.type),
    }))
  } finally {
    prepared.destroySync()
  }
}

/** The type that the printer knows, with Nullable, which DuckDB's types have not. */
function shownType(type: string | undefined): { shown?: string } {
  return type === undefined || type.includes(unknown) ? {} : { shown: type }
}

/** ClickHouse's name and type of each column. */
export function namesOf(columns: readonly DuckColumn[]) {
  return columns.map(({ name, type, shown }) => ({ name, type: shown ?? typeName(type) }))
}

// Writes the SQL that lets DuckDB render a statement's rows or cells as ClickHouse's text.
//
//   user's statement -> SELECT concat(lead0, cell0, lead1, …) FROM (<statement>) AS q(c0, …)
//
// A row never becomes a JavaScript string: row-bytes.ts copies DuckDB's own bytes.

/** Indents of a row's cells, and of those of its totals, in JSON trees. */
const rowDepth = 3
export const totalsDepth = 2

/** One row per row of the statement, rendered as a text. Slashes in JSON are not escaped yet. */
export function rowsSql(
  sql: string,
  columns: readonly DuckColumn[],
  layout: Layout,
  options: OutputOptions,
): string {
  const parts = columns.flatMap((column, at) => [
    ...leadSql(layout, at),
    ...cellParts(column, layout.mode, options),
  ])
  const row = `concat(${[...parts, duckdbString(layout.close)].join(', ')})`
  return `SELECT ${layout.isSilent === true ? "' '" : row} FROM ${source(sql, columns)}`
}

/** The rendered cells, each as a text that is never NULL. */
export function cellsSql(
  sql: string,
  columns: readonly DuckColumn[],
  mode: CellMode,
  options: OutputOptions,
  depth = rowDepth,
): string {
  const cells = columns.map(
    (column) => `concat(${cellParts(column, mode, options, depth).join(', ')})`,
  )
  return `SELECT ${cells.join(', ')} FROM ${source(sql, columns)}`
}

/** The statement with its result's names; fields of a tuple without names are numbered. */
export function namedSql(sql: string, columns: readonly DuckColumn[]): string {
  const cells = columns.map((column) => `${numbered(column)} AS ${duckdbName(column.name)}`)
  return `SELECT ${cells.join(', ')} FROM ${source(sql, columns)}`
}

function numbered({ value, fields }: DuckColumn): string {
  if (fields.length === 0) return value
  const parts = fields.map((field, at) => {
    return `${duckdbName(field.name || String(at + 1))} := ${numbered(field)}`
  })
  return `CASE WHEN ${value} IS NOT NULL THEN struct_pack(${parts.join(', ')}) END`
}

/** The line break stops a trailing comment from swallowing what follows. */
export function source(sql: string, columns: readonly DuckColumn[]): string {
  const count = new Set(columns.map(({ value }) => /c\d+/.exec(value)![0])).size
  const names = Array.from({ length: count }, (_, at) => `c${at}`)
  return `(${sql}\n) AS q(${names.join(', ')})`
}

/** Runs the rendered statement without keeping its rows, to get the error of a failed stream. */
export function probeSql(rendered: string): string {
  return `SELECT max(hash(r)) FROM (${rendered}) AS r`
}

/** A tuple is several columns of CSV. */
export function withoutTuples(columns: readonly DuckColumn[]): readonly DuckColumn[] {
  return columns.flatMap((column) =>
    column.fields.length === 0
      ? [column]
      : withoutTuples(
          column.fields.map(({ name, type, value, fields }, at) => {
            return { name: `${column.name}.${name || at + 1}`, type, value, fields }
          }),
        ),
  )
}

function leadSql({ leads, between, mode }: Layout, at: number): string[] {
  // The slashes of names are escaped with those of values.
  const plain = (text: string) => (mode.startsWith('json') ? text.replaceAll('\\/', '/') : text)
  if (at > 0) return leads[at] === '' ? [] : [duckdbString(plain(leads[at]!))]
  const number = 'CAST(row_number() OVER () AS VARCHAR)'
  const parts = plain(between + leads[0]!).split(/(\0[nr])/)
  return parts
    .filter((part) => part !== '')
    .map((part) => {
      if (part === rowNumber) return number
      return part === rowRule ? `repeat('─', length(${number}) + 5)` : duckdbString(part)
    })
}

/** Parts of `concat`, which ignores NULL: quotes of their own are cheaper than joined ones. */
function cellParts(
  { type, value: moment, shown = '' }: DuckColumn,
  mode: CellMode,
  options: OutputOptions,
  depth = rowDepth,
): readonly string[] {
  const zone = (options.times ?? 'simple') === 'simple' ? zoneOf(shown) : null
  const value = zone === null ? moment : movedTime('inZone', moment, zone, String(type))
  const { sql, quote } = textOf(type, value, { ...styles[mode], options }, depth)
  const none = duckdbString(nullTexts[mode])
  if (quote === '') return [`coalesce(${sql}, ${none})`]
  const literal = duckdbString(quote)
  return [
    `CASE WHEN ${value} IS NULL THEN ${none} ELSE ${literal} END`,
    sql,
    `CASE WHEN ${value} IS NULL THEN '' ELSE ${literal} END`,
  ]
}

const nullTexts: Readonly<Record<CellMode, string>> = {
  json: 'null',
  jsonTree: 'null',
  jsonText: '"ᴺᵁᴸᴸ"',
  csv: '\\N',
  escaped: '\\N',
  raw: '\\N',
  text: 'ᴺᵁᴸᴸ',
  quoted: 'NULL',
  xml: '\\N',
}

/** The text of nested values, and what is done with a whole cell. */
const styles: Readonly<Record<CellMode, Omit<TextStyle, 'options'>>> = {
  json: { nested: 'json', cell: 'json' },
  jsonTree: { nested: 'jsonTree', cell: 'json' },
  jsonText: { nested: 'quoted', cell: 'jsonText' },
  csv: { nested: 'quoted', cell: 'csv' },
  escaped: { nested: 'quoted', cell: 'escaped' },
  raw: { nested: 'quoted', cell: 'raw' },
  text: { nested: 'quoted', cell: 'raw' },
  quoted: { nested: 'quoted', cell: 'quoted' },
  xml: { nested: 'xml', cell: 'xml' },
}
