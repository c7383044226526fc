// Writes the SQL that lets DuckDB render a statement's rows or cells as ClickHouse's text.
// Thread: main of a query process.
//
//   user's statement -> SELECT concat(lead0, cell0, lead1, …) FROM (<statement>) AS q(c0, …)
//
// A row never becomes a JavaScript string: row-bytes.ts copies DuckDB's own bytes.
import type { OutputOptions } from '../formats/formats.ts'
import { type CellMode, type Layout, rowNumber, rowRule } from '../formats/layouts.ts'
import { duckdbName, duckdbString } from '../sql/quoting.ts'
import { type TextStyle, textOf } from './nested-text.ts'
import type { DuckColumn } from './result-types.ts'
import { movedTime, zoneOf } from './typing.ts'

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
