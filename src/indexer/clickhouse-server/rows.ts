// Encodes rows as JSONEachRow. Thread: writer process. 64-bit integers are exact. A DateTime is in
// seconds; a DateTime64 is a UTC string, or the plain count where the server lacks the type.
import type { Cell, RowBatch } from '../engine.ts'
import { type ColumnType, type Table, tables } from '../tables.ts'
import { digitsOf } from './schema.ts'
import type { ServerFacts } from './server-facts.ts'

type Write = (cell: Cell) => string

/** The rows from `begin` up to `end`, one line each. */
export function encodeRows(
  batch: RowBatch,
  range: { readonly begin: number; readonly end: number },
  facts: ServerFacts,
): string {
  const { columns }: Table = tables[batch.table]
  const parts = Object.entries(columns).map(([name, type], index) => ({
    lead: `${index === 0 ? '{' : ','}${JSON.stringify(name)}:`,
    write: writerOf(type, facts),
    cells: batch.columns[index]!,
  }))
  let text = ''
  for (let row = range.begin; row < range.end; row++) {
    for (const { lead, write, cells } of parts) text += lead + write(cells[row]!)
    text += '}\n'
  }
  return withoutLoneSurrogates(text)
}

function writerOf(type: ColumnType, facts: ServerFacts): Write {
  const digits = digitsOf(type)
  if (digits > 0) return facts.hasDateTime64 ? timeWriter(digits) : String
  switch (type) {
    case 'String':
    case 'Array(String)':
      return JSON.stringify
    case 'Float64':
      return (cell) => (Number.isFinite(cell) ? String(cell) : '0')
    default:
      return String
  }
}

/** Rows of one block share their second, so the last string is cached. */
function timeWriter(digits: number): Write {
  const unit = 10n ** BigInt(digits)
  let second = -1n
  let text = ''
  return (cell) => {
    const count = BigInt(cell as number | bigint)
    const whole = count / unit
    if (whole !== second) {
      second = whole
      text = new Date(Number(whole) * 1000).toISOString().slice(0, 19).replace('T', ' ')
    }
    return `"${text}.${String(count % unit).padStart(digits, '0')}"`
  }
}

/** JSON.stringify writes a lone surrogate as an escape, which ClickHouse rejects. */
function withoutLoneSurrogates(text: string): string {
  if (!text.includes('\\ud')) return text
  return text.replaceAll(/(?<=(?:^|[^\\])(?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g, '\\ufffd')
}
