// Output formats: their names and content types, and the encoder that writes a result in one of
// them, chunk by chunk. Thread: any (pure). Cells in, text out; the caller counts and sends.
import { type OutputFormat, outputFormats } from './engine.ts'
import { shortEscapes } from './sql/quoting.ts'
import type { ColumnType } from './tables.ts'

const aliases: Readonly<Record<string, OutputFormat>> = {
  tsv: 'TabSeparated',
  tsvwithnames: 'TabSeparatedWithNames',
  jsonlines: 'JSONEachRow',
  ndjson: 'JSONEachRow',
}
const byName = new Map<string, OutputFormat>([
  ...outputFormats.map((format) => [format.toLowerCase(), format] as const),
  ...Object.entries(aliases),
])

/** ClickHouse's default format. */
export const defaultFormat: OutputFormat = 'TabSeparated'

/** Null for an unsupported format. */
export function formatOf(name: string): OutputFormat | null {
  return byName.get(name.toLowerCase()) ?? null
}

export function contentTypeOf(format: OutputFormat): string {
  if (format === 'Parquet') return 'application/octet-stream'
  const isLines = format.endsWith('EachRow')
  if (format.startsWith('JSON'))
    return `application/${isLines ? 'x-ndjson' : 'json'}; charset=UTF-8`
  if (format.startsWith('Tab')) return 'text/tab-separated-values; charset=UTF-8'
  return `text/csv; charset=UTF-8; header=${format === 'CSV' ? 'absent' : 'present'}`
}

/** A truncated result of these formats is useless, so more of it is buffered. */
export function isWhole(format: OutputFormat): boolean {
  return format === 'JSON' || format === 'JSONCompact' || format === 'Parquet'
}

/**
 * `big` and `decimal` are digits as strings; `nested` is a list, tuple or map already written in
 * the format. All other strings (names, times, identifiers) are `text`.
 */
export type CellKind = 'number' | 'float' | 'bool' | 'text' | 'big' | 'decimal' | 'nested'
export type ResultCell = string | number | boolean | null
export interface ResultColumn {
  readonly name: string
  /** ClickHouse type name. */
  readonly type: string
  readonly kind: CellKind
}

/** Cells are passed by column, as the engine returns them. */
export interface Encoder {
  begin(): string
  rows(columns: readonly (readonly ResultCell[])[], count: number): string
  end(statistics: { readonly rows: number; readonly elapsedSeconds: number }): string
}

export type TextFormat = Exclude<OutputFormat, 'Parquet'>

export function encoderOf(
  format: TextFormat,
  columns: readonly ResultColumn[],
  quotes64: boolean,
): Encoder {
  const { open, separator, close, cellOf, nameOf } = layoutOf(format, quotes64)
  const writers = columns.map(({ kind }) => cellOf(kind))
  const isObject = format === 'JSON' || format === 'JSONEachRow'
  const leads = columns.map(
    ({ name }, at) => (at === 0 ? open : separator) + (isObject ? `${nameOf(name)}:` : ''),
  )
  const rowText = (cells: readonly (readonly ResultCell[])[], row: number) => {
    let text = ''
    for (let at = 0; at < leads.length; at += 1) text += leads[at]! + writers[at]!(cells[at]![row]!)
    return text + close
  }
  if (format === 'JSON' || format === 'JSONCompact') return wholeJson(columns, rowText)
  const names = columns.map(({ name }) => nameOf(name)).join(separator)
  return {
    begin: () => (format.endsWith('WithNames') ? `${names}\n` : ''),
    rows: (cells, count) => {
      let text = ''
      for (let at = 0; at < count; at += 1) text += `${rowText(cells, at)}\n`
      return text
    },
    end: () => '',
  }
}

type RowText = (cells: readonly (readonly ResultCell[])[], row: number) => string

function wholeJson(columns: readonly ResultColumn[], rowText: RowText): Encoder {
  const meta = columns.map(({ name, type }) => ({ name, type }))
  let isFirst = true
  return {
    begin: () => `{"meta":${JSON.stringify(meta)},"data":[`,
    rows: (cells, count) => {
      let text = ''
      for (let at = 0; at < count; at += 1) {
        text += (isFirst ? '\n' : ',\n') + rowText(cells, at)
        isFirst = false
      }
      return text
    },
    end: ({ rows, elapsedSeconds }) => {
      const statistics = { elapsed: elapsedSeconds, rows_read: rows, bytes_read: 0 }
      return `${isFirst ? '' : '\n'}],"rows":${rows},"statistics":${JSON.stringify(statistics)}}\n`
    },
  }
}

type WriteCell = (cell: ResultCell) => string

interface Layout {
  /** Around a row, and between its cells. */
  readonly open: string
  readonly separator: string
  readonly close: string
  cellOf(kind: CellKind): WriteCell
  nameOf(name: string): string
}

function layoutOf(format: TextFormat, quotes64: boolean): Layout {
  const bare = { open: '', close: '' }
  if (format.startsWith('CSV')) return { ...bare, separator: ',', cellOf: csvCell, nameOf: csvText }
  if (format.startsWith('Tab'))
    return { ...bare, separator: '\t', cellOf: tsvCell, nameOf: tsvText }
  const [open, close] = format.includes('Compact') ? ['[', ']'] : ['{', '}']
  return {
    open: open!,
    close: close!,
    separator: ',',
    cellOf: (kind) => jsonCell(kind, quotes64),
    nameOf: (name) => JSON.stringify(name),
  }
}

function jsonCell(kind: CellKind, quotes64: boolean): WriteCell {
  if (kind === 'text') return (cell) => JSON.stringify(cell)
  if (kind === 'float') return (cell) => (Number.isFinite(cell) ? String(cell) : 'null')
  return kind === 'big' && quotes64 ? (cell) => (cell === null ? 'null' : `"${cell}"`) : String
}

function csvCell(kind: CellKind): WriteCell {
  return plainCell(kind === 'text' || kind === 'nested' ? csvText : String)
}

function tsvCell(kind: CellKind): WriteCell {
  return plainCell(kind === 'text' ? tsvText : String)
}

function plainCell(textOf: (text: string) => string): WriteCell {
  return (cell) => {
    if (cell === null) return '\\N'
    return typeof cell === 'number' ? numberText(cell) : textOf(String(cell))
  }
}

function csvText(text: string): string {
  return `"${text.replaceAll('"', '""')}"`
}

function tsvText(text: string): string {
  return text.replaceAll(/[\\\t\n\r\b\f\0]/g, (char) => shortEscapes.get(char) ?? '\\\\')
}

function numberText(value: number): string {
  if (Number.isFinite(value)) return String(value)
  if (Number.isNaN(value)) return 'nan'
  return value > 0 ? 'inf' : '-inf'
}

/** A result that the endpoint builds itself. */
export interface SmallResult {
  readonly columns: readonly { readonly name: string; readonly type: ColumnType }[]
  readonly rows: readonly (readonly (string | number)[])[]
}

/** The same text as an engine's; null for Parquet, which is not supported here. */
export function renderSmall({ columns, rows }: SmallResult, format: OutputFormat): string | null {
  if (format === 'Parquet') return null
  const typed = columns.map(({ name, type }): ResultColumn => {
    return { name, type, kind: type === 'String' ? 'text' : 'number' }
  })
  const encoder = encoderOf(format, typed, true)
  const cells = columns.map((_, at) => rows.map((row) => row[at]!))
  const end = encoder.end({ rows: rows.length, elapsedSeconds: 0 })
  return encoder.begin() + encoder.rows(cells, rows.length) + end
}
