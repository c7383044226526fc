// Writes rendered cells of a result in each format.
// Thread: main of a query process. Pure.

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

export type WriteCell = (cell: ResultCell) => string

export function jsonCell(kind: CellKind, quotes64: boolean): WriteCell {
  switch (kind) {
    case 'text':
      return (cell) => JSON.stringify(cell)
    case 'big':
      return quotes64 ? (cell) => (cell === null ? 'null' : `"${cell}"`) : String
    case 'float':
      return (cell) => (Number.isFinite(cell) ? String(cell) : 'null')
    default:
      return String
  }
}

export function csvCell(kind: CellKind): WriteCell {
  const isQuoted = kind === 'text' || kind === 'nested'
  return (cell) => {
    if (cell === null) return '\\N'
    if (typeof cell === 'number') return numberText(cell)
    return isQuoted ? `"${String(cell).replaceAll('"', '""')}"` : String(cell)
  }
}

export function tsvCell(kind: CellKind): WriteCell {
  return (cell) => {
    if (cell === null) return '\\N'
    if (typeof cell === 'number') return numberText(cell)
    return kind === 'text' ? tsvText(String(cell)) : String(cell)
  }
}

const tsvEscapes: Readonly<Record<string, string>> = {
  '\\': '\\\\',
  '\t': '\\t',
  '\n': '\\n',
  '\r': '\\r',
  '\b': '\\b',
  '\f': '\\f',
  '\0': '\\0',
}

export function tsvText(text: string): string {
  return text.replaceAll(/[\\\t\n\r\b\f\0]/g, (char) => tsvEscapes[char]!)
}

function numberText(value: number): string {
  if (Number.isFinite(value)) return String(value)
  if (Number.isNaN(value)) return 'nan'
  return value > 0 ? 'inf' : '-inf'
}
