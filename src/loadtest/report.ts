// Renders a result as one HTML file: no script, no font, no picture from elsewhere.
// Pure. The plots are SVG inside the page, so that the file can be mailed or kept by CI.
import { escaped, type Plot, plotSvg } from './plot.ts'
import type { Result } from './result.ts'
import { figureText, verdictLines } from './result-text.ts'

const style = `body{font:15px/1.5 Helvetica,Arial,sans-serif;max-width:900px;margin:2rem auto;
padding:0 1rem;color:#1a1a1a;background:#fff}h1{font-size:1.5rem}h2{font-size:1.15rem;
margin-top:2rem}table{border-collapse:collapse;margin:.5rem 0}td,th{padding:.25rem .8rem;
border-bottom:1px solid #ddd;text-align:right}td:first-child,th:first-child{text-align:left}
svg{max-width:100%;height:auto}.bad{background:#fdecea;border-left:4px solid #b3261e;
padding:.5rem 1rem}.good{background:#e8f5e9;border-left:4px solid #2e7d32;padding:.5rem 1rem}`

/** A table of the verb's own, shown under the figures. */
export interface ReportTable {
  readonly title: string
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

export interface ReportParts {
  readonly title: string
  readonly plots: readonly Plot[]
  readonly tables?: readonly ReportTable[]
}

export function reportHtml(result: Result, { title, plots, tables = [] }: ReportParts): string {
  const { node, platform, processor, cores } = result.machine
  const settings = Object.entries(result.settings).map(([name, value]) => [name, String(value)])
  return [
    '<!doctype html>',
    `<html lang="en"><head><meta charset="utf-8"><title>${escaped(title)}</title>`,
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    `<style>${style}</style></head><body>`,
    `<h1>${escaped(title)}</h1>`,
    `<p>Started ${escaped(result.startedAt)}, measured for ${result.seconds.toFixed(1)} s.</p>`,
    ...verdict(result),
    '<h2>Figures</h2>',
    figuresTable(result),
    ...plots.map(plotSvg),
    ...tables.flatMap((table) => [
      `<h2>${escaped(table.title)}</h2>`,
      tableHtml(table.head, table.rows),
    ]),
    '<h2>Settings</h2>',
    tableHtml(['setting', 'value'], settings),
    `<p>${escaped(`${processor}, ${cores} cores, ${platform}, Node ${node}`)}</p>`,
    '</body></html>',
    '',
  ].join('\n')
}

function verdict(result: Result): string[] {
  const lines = verdictLines(result)
  if (lines.length === 0)
    return ['<p class="good">The run is complete and fit: its figures can be relied on.</p>']
  return lines.map((line) => `<p class="bad">${escaped(line)}</p>`)
}

function figuresTable({ figures }: Result): string {
  const names = [...new Set(figures.map(({ name }) => name))]
  const subjects = [...new Set(figures.map(({ of }) => of))]
  const rows = names.map((name) => [
    name,
    ...subjects.map((of) => {
      const figure = figures.find((one) => one.name === name && one.of === of)
      return figure === undefined ? '' : figureText(figure)
    }),
  ])
  return tableHtml(['', ...subjects.map((of) => (of === '' ? 'whole run' : of))], rows)
}

function tableHtml(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (tag: string, cells: readonly string[]) =>
    `<tr>${cells.map((cell) => `<${tag}>${escaped(cell)}</${tag}>`).join('')}</tr>`
  return `<table>${line('th', head)}${rows.map((row) => line('td', row)).join('')}</table>`
}
