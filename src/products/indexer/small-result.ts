// Renders a result that the endpoint builds itself (SHOW, DESCRIBE, KILL) without an engine.
import { arrange, modeOf } from '../../indexer/clickhouse/formats/arranged.ts'
import { type Format, isTextFormat } from '../../indexer/clickhouse/formats/formats.ts'
import { cellText, layoutOf, rowNumber, rowRule } from '../../indexer/clickhouse/formats/layouts.ts'
import type { ColumnType } from '../../indexer/tables.ts'

export interface SmallResult {
  readonly columns: readonly { readonly name: string; readonly type: ColumnType }[]
  readonly rows: readonly (readonly (string | number)[])[]
}

/** The same text as an engine's; null for binary formats, which only an engine writes. */
export function renderSmall({ columns, rows }: SmallResult, format: Format): string | null {
  if (!isTextFormat(format)) return null
  if (columns.length === 0) return ''
  const count = { rows: rows.length, readRows: rows.length }
  const statistics = { ...count, elapsedSeconds: 0, isLimited: false, totals: null }
  const { writing } = format
  if ('whole' in writing) {
    const write = cellText(modeOf(writing.whole))
    const cells = columns.map((_, at) => rows.map((row) => write(row[at]!)))
    return arrange(writing.whole, { columns, cells, statistics })
  }
  const layout = layoutOf(format, columns)
  if (layout.isSilent) return ''
  const write = cellText(layout.mode)
  const texts = rows.map((row, at) => {
    const title = `Row ${at + 1}:`
    const cells = layout.leads.map((lead, index) => lead + write(row[index]!)).join('')
    return (
      cells.replace(rowNumber, String(at + 1)).replace(rowRule, '─'.repeat(title.length)) +
      layout.close
    )
  })
  return layout.begin + texts.join(layout.between) + layout.end(statistics)
}
