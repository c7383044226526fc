// Renders an SQL result as a table for a terminal.
import { safeText } from './output.ts'

export interface TabularResult {
  readonly meta: readonly { readonly name: string; readonly type: string }[]
  readonly data: readonly (readonly unknown[])[]
}

const CELL_CHARS_MAX = 80

/** Numbers are right-aligned, everything else left-aligned; long cells are truncated. */
export function renderTable({ meta, data }: TabularResult): string {
  if (meta.length === 0) return ''
  const rows = data.map((row) => row.map(cellText))
  const widths = meta.map(({ name }, at) =>
    rows.reduce((width, row) => Math.max(width, row[at]?.length ?? 0), safeText(name).length),
  )
  const isNumber = meta.map(({ type }) => /^(Nullable\()?(U?Int|Float|Decimal)/.test(type))
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, at) =>
        isNumber[at] ? cell.padStart(widths[at] ?? 0) : cell.padEnd(widths[at] ?? 0),
      )
      .join('  ')
      .trimEnd()
  return [
    line(meta.map(({ name }) => safeText(name))),
    widths.map((width) => '-'.repeat(width)).join('  '),
    ...rows.map(line),
  ].join('\n')
}

function cellText(value: unknown): string {
  if (value === null) return 'NULL'
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value)
  const clean = safeText(text).replaceAll('\n', ' ')
  return clean.length > CELL_CHARS_MAX ? `${clean.slice(0, CELL_CHARS_MAX - 1)}…` : clean
}
