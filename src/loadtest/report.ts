// Renders a result as one HTML file: no script, no font, no picture from elsewhere.
// Pure. The plots are SVG inside the page, so that the file can be mailed or kept by CI.
import { escaped, type Plot, plotSvg } from './plot.ts'
import { type Figure, figureText, type Result, verdictLines } from './result.ts'

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
  /** The result in sentences, the most important first. */
  readonly findings?: readonly string[]
  readonly plots: readonly Plot[]
  readonly tables?: readonly ReportTable[]
}

/** What the figures are, by the beginning of their names. */
const words: Readonly<Record<string, string>> = {
  asked: 'rate of the intended starts',
  achieved: 'answers without an error per second',
  errors: 'share of the calls that failed',
  p: 'latency from the intended start to the answer, below which that share of the calls stays',
  'service-p': 'the same from the write to the answer, as a tool that waits for answers reports it',
  'own-delay': 'how late this machine noticed that a call was to start',
  'own-lag': 'how late the event loop of this machine ran; none where it does not use one',
  'own-busy': 'share of its busiest second in which a generator thread worked',
  knee: 'highest rate at which the conditions held',
  'first-share': 'share of the items that this endpoint showed first',
  missing: 'share of the items that only others showed',
  behind: 'how much later than the first it showed an item',
  'round-trip': 'time of a ping or a small call',
  difference: 'how much earlier the first of a pair is; negative: later',
  'null-difference': 'the same of an endpoint against itself: the noise',
  landed: 'share of the sent transactions that are in a block',
  slots: 'slots from the newest one seen at sending to the one that has the transaction',
  answer: 'time until the route answered',
  'cost-per-landed': 'lamports of tip and fee for each landed transaction',
}

export function reportHtml(result: Result, parts: ReportParts): string {
  const { title, plots, findings = [], tables = [] } = parts
  const { node, platform, processor, cores } = result.machine
  const settings = Object.entries(result.settings)
    .filter(([, value]) => value !== null && value !== '')
    .map(([name, value]) => [name, String(value)])
  return [
    '<!doctype html>',
    `<html lang="en"><head><meta charset="utf-8"><title>${escaped(title)}</title>`,
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    `<style>${style}</style></head><body>`,
    `<h1>${escaped(title)}</h1>`,
    ...findings
      .map(escaped)
      .map((text, at) => `<p>${at === 0 ? `<strong>${text}</strong>` : text}</p>`),
    `<p>Started ${escaped(result.startedAt)}, measured for ${result.seconds.toFixed(1)} s.</p>`,
    ...verdict(result),
    '<h2>Figures</h2>',
    figuresTable(result),
    ...plots.map(plotSvg),
    ...tables.flatMap((table) => [
      `<h2>${escaped(table.title)}</h2>`,
      tableHtml(table.head, table.rows),
    ]),
    '<h2>Words</h2>',
    ...wordsOf(result).map(([word, meaning]) => `<p><b>${word}</b> ${meaning}</p>`),
    '<h2>Settings</h2>',
    tableHtml(['setting', 'value'], settings),
    `<p>${escaped(`${processor}, ${cores} cores, ${platform}, Node ${node}`)}</p>`,
    '</body></html>',
    '',
  ].join('\n')
}

/** The meaning of each figure of the result, once. */
function wordsOf({ figures }: Result): string[][] {
  const isOf = (name: string, word: string) =>
    name === word || (name.startsWith(word) && /^-?[p\d]/.test(name.slice(word.length)))
  return Object.entries(words)
    .filter(([word]) => figures.some((figure) => isKnown(figure) && isOf(figure.name, word)))
    .map(([word, meaning]) => [word.endsWith('p') ? `${word}…` : word, meaning])
}

function verdict(result: Result): string[] {
  const lines = verdictLines(result)
  if (lines.length === 0)
    return ['<p class="good">The run is complete and fit: its figures can be relied on.</p>']
  return lines.map((line) => `<p class="bad">${escaped(line)}</p>`)
}

/** Figures of this machine are only shown where there are some. */
function isKnown({ name, value }: Figure): boolean {
  return value !== null || !name.startsWith('own-')
}

function figuresTable({ figures }: Result): string {
  const names = [...new Set(figures.filter(isKnown).map(({ name }) => name))]
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
