// Arranges rendered cells in the formats that need the whole result first: JSON by column, and
// tables with aligned columns.
import type { ArrangedName, ResultColumn, ResultStatistics } from './formats.ts'
import {
  type CellMode,
  isRightAligned,
  jsonEnd,
  jsonMeta,
  jsonText,
  jsonTotals,
} from './layouts.ts'

/** Cells by column, already rendered in the format's mode. */
export interface RenderedCells {
  readonly columns: readonly ResultColumn[]
  readonly cells: readonly (readonly string[])[]
  readonly statistics: ResultStatistics
}

export function modeOf(name: ArrangedName): CellMode {
  return name.startsWith('json') ? 'json' : 'text'
}

export function arrange(name: ArrangedName, rendered: RenderedCells): string {
  const { columns, cells, statistics } = rendered
  const lists = cells.map((column) => `[${column.join(', ')}]`)
  const isEmpty = statistics.rows === 0
  const members = (indent: string) =>
    columns.map(({ name }, at) => `${indent}${jsonText(name)}: ${lists[at]}`).join(',\n')
  switch (name) {
    case 'jsonColumns':
      return `{\n${members('\t')}\n}\n`
    case 'jsonCompactColumns':
      return `[\n${isEmpty ? '' : `\t${lists.join(',\n\t')}`}\n]\n`
    case 'jsonColumnsWithMetadata':
      return (
        `{\n${jsonMeta(columns)}\t"data":\n\t{\n${isEmpty ? '' : members('\t\t')}\n\t},\n\n` +
        `${jsonTotals(columns, statistics.totals)}${jsonEnd(statistics)}}\n`
      )
    default:
      return (isEmpty ? '' : table(tableStyles[name], rendered)) + totalsTable(name, rendered)
  }
}

/** Rows that a table shows; footers repeat the names of long ones. ClickHouse's defaults. */
const rowsShown = 1_000
const footerRows = 50
const verticalRows = 10
const verticalColumns = 5
const verticalWidth = 250
const tipFrom = 1_000_000

/** left, fill, between, right */
type Line = readonly [string, string, string, string]
interface TableStyle {
  /** Lines above and below the names; null: the names are in the line itself. */
  readonly head: readonly [Line, Line] | null
  readonly foot: readonly [Line, Line] | null
  readonly names: Line
  readonly footNames: Line
  readonly row: Line
  readonly rule: Line | null
  readonly last: Line | null
  readonly isOpen?: boolean
}

const edge: Line = ['└─', '─', '─┴─', '─┘']
const cellsLine: Line = ['│ ', ' ', ' │ ', ' │']
const thick: Line = ['┃ ', ' ', ' ┃ ', ' ┃']
const open: Line = [' ', ' ', '   ', '']

const tableStyles: Readonly<Record<'pretty' | 'prettyCompact' | 'prettySpace', TableStyle>> = {
  pretty: {
    head: [
      ['┏━', '━', '━┳━', '━┓'],
      ['┡━', '━', '━╇━', '━┩'],
    ],
    foot: [
      ['┢━', '━', '━╈━', '━┪'],
      ['┗━', '━', '━┻━', '━┛'],
    ],
    names: thick,
    footNames: thick,
    row: cellsLine,
    rule: ['├─', '─', '─┼─', '─┤'],
    last: edge,
  },
  prettyCompact: {
    head: null,
    foot: null,
    names: ['┌─', '─', '─┬─', '─┐'],
    footNames: edge,
    row: cellsLine,
    rule: null,
    last: edge,
  },
  prettySpace: {
    head: null,
    foot: null,
    names: open,
    footNames: open,
    row: [' ', ' ', '   ', ' '],
    rule: null,
    last: null,
    isOpen: true,
  },
}

/** The totals are a table of their own. */
function totalsTable(
  name: keyof typeof tableStyles,
  { columns, statistics }: RenderedCells,
): string {
  const { totals } = statistics
  if (totals === null) return ''
  const cells = totals.map((text) => [text])
  const row = table(tableStyles[name], { columns, cells, statistics: { ...statistics, rows: 1 } })
  return `\nTotals:\n${row}`
}

function table(style: TableStyle, { columns, cells, statistics }: RenderedCells): string {
  const rows = Math.min(statistics.rows, rowsShown)
  const names = columns.map(({ name }) => name)
  const widths = cells.map((column, at) =>
    column
      .slice(0, rows)
      .reduce((most, cell) => Math.max(most, widthOf(cell)), widthOf(names[at]!)),
  )
  const total = widths.reduce((sum, width) => sum + width, 0)
  const isBroken = cells.some((column) => column.some((cell) => cell.includes('\n')))
  const isWide = total >= verticalWidth || isBroken
  if (columns.length >= verticalColumns && rows <= verticalRows && isWide)
    return vertical(names, cells, rows)
  const rights = columns.map(({ type }) => isRightAligned(type))
  const margin = String(rows).length + 2
  const line = ([left, fill, between, right]: Line, texts: readonly string[], lead = '') => {
    const padded = texts.map((text, at) => {
      const pad = fill.repeat(widths[at]! - widthOf(text))
      return rights[at] ? pad + text : text + pad
    })
    return `${lead.padStart(margin)}${left}${padded.join(between)}${right}`
  }
  const blank = names.map(() => '')
  const lines = [
    ...(style.head === null ? [] : [line(style.head[0], blank)]),
    line(style.names, names),
    ...(style.head === null ? [] : [line(style.head[1], blank)]),
    ...(style.isOpen === true ? [''] : []),
  ]
  for (let row = 0; row < rows; row += 1) {
    if (row > 0 && style.rule !== null) lines.push(line(style.rule, blank))
    const texts = cells.map((column) => column[row]!)
    lines.push(line(style.row, texts, `${row + 1}. `) + tip(columns, texts, statistics.rows))
  }
  if (rows >= footerRows) {
    if (style.isOpen === true) lines.push('')
    if (style.foot !== null) lines.push(line(style.foot[0], blank))
    lines.push(line(style.footNames, names))
    if (style.foot !== null) lines.push(line(style.foot[1], blank))
    if (style.isOpen === true) lines.push('')
  } else if (style.last !== null) lines.push(line(style.last, blank))
  if (rows < statistics.rows) lines.push(`Showed ${rows} out of ${statistics.rows} rows.`)
  return `${lines.join('\n')}\n`
}

function vertical(
  names: readonly string[],
  cells: readonly (readonly string[])[],
  rows: number,
): string {
  const width = Math.max(...names.map(widthOf)) + 2
  return Array.from({ length: rows }, (_, row) => {
    const title = `Row ${row + 1}:`
    const lines = names.map((name, at) => {
      return `${name}:${' '.repeat(width - widthOf(name) - 1)}${cells[at]![row]}`
    })
    return `${title}\n${'─'.repeat(title.length)}\n${lines.join('\n')}\n`
  }).join('\n')
}

/** A single large number is followed by its size in words. */
function tip(columns: readonly ResultColumn[], [text]: readonly string[], rows: number): string {
  const value = Math.abs(Number(text))
  if (rows !== 1 || columns.length !== 1 || !/Int|Float|Decimal/.test(columns[0]!.type)) return ''
  if (!(value > tipFrom)) return ''
  const [size, word] = [
    [1e12, 'trillion'],
    [1e9, 'billion'],
    [1e6, 'million'],
  ].find(([from]) => value >= (from as number)) as [number, string]
  return ` -- ${(Number(text) / size).toFixed(2)} ${word}`
}

/** Columns on a screen: wide characters take two, combining ones none. */
function widthOf(text: string): number {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the range of plain ASCII
  if (/^[\x00-\x7f]*$/.test(text)) return text.length
  let width = 0
  for (const char of text) if (!/\p{Mn}/u.test(char)) width += wide.test(char) ? 2 : 1
  return width
}

const wide = new RegExp(
  '[\\u1100-\\u115f\\u2e80-\\ua4cf\\uac00-\\ud7a3\\uf900-\\ufaff\\ufe30-\\ufe6f\\uff00-\\uff60]' +
    '|\\p{Emoji_Presentation}',
  'u',
)
