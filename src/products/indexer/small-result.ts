// Renders small results that the endpoint builds itself, in every text format. Thread: any (pure).
// The output matches an engine's.

import type { OutputFormat } from './engine.ts'
import type { ColumnType } from './tables.ts'

export interface SmallResult {
  readonly columns: readonly { readonly name: string; readonly type: ColumnType }[]
  readonly rows: readonly (readonly (string | number)[])[]
}

/** Null for Parquet, which is not supported here. */
export function renderSmall({ columns, rows }: SmallResult, format: OutputFormat): string | null {
  const names = columns.map(({ name }) => name)
  const objects = () =>
    rows.map((row) => Object.fromEntries(row.map((cell, at) => [names[at]!, cell])))
  const lines = (items: readonly unknown[]) => items.map((item) => `${JSON.stringify(item)}\n`)
  switch (format) {
    case 'JSON':
      return wholeJson(columns, objects())
    case 'JSONCompact':
      return wholeJson(columns, rows)
    case 'JSONEachRow':
      return lines(objects()).join('')
    case 'JSONCompactEachRow':
      return lines(rows).join('')
    case 'CSV':
      return linesOf(rows, ',', csvCell)
    case 'CSVWithNames':
      return linesOf([names, ...rows], ',', csvCell)
    case 'TabSeparated':
      return linesOf(rows, '\t', tsvCell)
    case 'TabSeparatedWithNames':
      return linesOf([names, ...rows], '\t', tsvCell)
    case 'Parquet':
      return null
  }
}

function wholeJson(meta: SmallResult['columns'], data: readonly unknown[]): string {
  const statistics = { elapsed: 0, rows_read: data.length, bytes_read: 0 }
  return `${JSON.stringify({ meta, data, rows: data.length, statistics })}\n`
}

function linesOf(
  rows: SmallResult['rows'],
  separator: string,
  cellOf: (cell: string | number) => string,
): string {
  return rows.map((row) => `${row.map(cellOf).join(separator)}\n`).join('')
}

function csvCell(cell: string | number): string {
  return typeof cell === 'number' ? String(cell) : `"${cell.replaceAll('"', '""')}"`
}

function tsvCell(cell: string | number): string {
  return String(cell)
    .replaceAll('\\', '\\\\')
    .replaceAll('\t', '\\t')
    .replaceAll('\n', '\\n')
    .replaceAll('\r', '\\r')
}
