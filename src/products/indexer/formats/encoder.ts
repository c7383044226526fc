// Encodes a result in the requested format, chunk by chunk. Thread: main of a query process.
// Pure: cells in, text out; the caller counts and sends.
import type { OutputFormat } from '../engine.ts'
import {
  csvCell,
  jsonCell,
  type ResultCell,
  type ResultColumn,
  tsvCell,
  tsvText,
  type WriteCell,
} from './cells.ts'

export interface ResultStatistics {
  readonly rows: number
  readonly elapsedSeconds: number
}

/** Cells are passed by column, as the engine returns them. */
export interface Encoder {
  begin(): string
  rows(columns: readonly (readonly ResultCell[])[], count: number): string
  end(statistics: ResultStatistics): string
}

export type TextFormat = Exclude<OutputFormat, 'Parquet'>

export function encoderOf(
  format: TextFormat,
  columns: readonly ResultColumn[],
  quotes64: boolean,
): Encoder {
  const json = columns.map(({ kind }) => jsonCell(kind, quotes64))
  switch (format) {
    case 'JSON':
      return wholeJson(columns, objectRows(columns, json))
    case 'JSONCompact':
      return wholeJson(columns, arrayRows(json))
    case 'JSONEachRow':
      return lines('', joined(objectRows(columns, json), '\n'))
    case 'JSONCompactEachRow':
      return lines('', joined(arrayRows(json), '\n'))
    case 'CSV':
    case 'CSVWithNames': {
      const names = columns.map(({ name }) => `"${name.replaceAll('"', '""')}"`).join(',')
      const head = format === 'CSV' ? '' : `${names}\n`
      return lines(
        head,
        separatedRows(
          columns.map(({ kind }) => csvCell(kind)),
          ',',
        ),
      )
    }
    case 'TabSeparated':
    case 'TabSeparatedWithNames': {
      const names = columns.map(({ name }) => tsvText(name)).join('\t')
      const head = format === 'TabSeparated' ? '' : `${names}\n`
      return lines(
        head,
        separatedRows(
          columns.map(({ kind }) => tsvCell(kind)),
          '\t',
        ),
      )
    }
  }
}

type Cells = readonly (readonly ResultCell[])[]
/** One row as text, without the separator. */
type RowText = (columns: Cells, row: number) => string

function objectRows(columns: readonly ResultColumn[], write: readonly WriteCell[]): RowText {
  const keys = columns.map(({ name }, at) => `${at === 0 ? '' : ','}${JSON.stringify(name)}:`)
  return (cells, row) => {
    let text = '{'
    for (let at = 0; at < keys.length; at += 1) text += keys[at]! + write[at]!(cells[at]![row]!)
    return `${text}}`
  }
}

function arrayRows(write: readonly WriteCell[]): RowText {
  const row = separatedRows(write, ',')
  return (cells, at) => `[${row(cells, at).slice(0, -1)}]`
}

/** One row with its line break, for the line-based formats. */
function separatedRows(write: readonly WriteCell[], separator: string): RowText {
  return (cells, row) => {
    let text = ''
    for (let at = 0; at < write.length; at += 1)
      text += (at === 0 ? '' : separator) + write[at]!(cells[at]![row]!)
    return `${text}\n`
  }
}

function joined(row: RowText, end: string): RowText {
  return (cells, at) => row(cells, at) + end
}

function lines(head: string, row: RowText): Encoder {
  return {
    begin: () => head,
    rows: (columns, count) => {
      let text = ''
      for (let at = 0; at < count; at += 1) text += row(columns, at)
      return text
    },
    end: () => '',
  }
}

function wholeJson(columns: readonly ResultColumn[], row: RowText): Encoder {
  const meta = columns.map(({ name, type }) => ({ name, type }))
  let isFirst = true
  return {
    begin: () => `{"meta":${JSON.stringify(meta)},"data":[`,
    rows: (cells, count) => {
      let text = ''
      for (let at = 0; at < count; at += 1) {
        text += (isFirst ? '\n' : ',\n') + row(cells, at)
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
