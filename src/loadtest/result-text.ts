// Renders a result as a table for the terminal and as text for Prometheus.
import type { Figure, Result, Unit } from './result.ts'

/** The figures of a result: one row for each endpoint, one column for each figure. */
export function resultTable(result: Pick<Result, 'figures'>): string {
  const names = [...new Set(result.figures.map(({ name }) => name))]
  const subjects = [...new Set(result.figures.map(({ of }) => of))]
  if (subjects.length === 1 && subjects[0] === '')
    return aligned(result.figures.map((figure) => [figure.name, figureText(figure)]))
  const rows = subjects.map((subject) => [
    subject === '' ? 'all' : subject,
    ...names.map((name) => {
      const figure = result.figures.find((one) => one.name === name && one.of === subject)
      return figure === undefined ? '' : figureText(figure)
    }),
  ])
  return aligned([['', ...names], ...rows])
}

/** Sentences on how far the result can be relied on; empty for a complete and fit run. */
export function verdictLines({ unfit, partial }: Pick<Result, 'unfit' | 'partial'>): string[] {
  return [
    ...(partial === null ? [] : [`PARTIAL: ${partial}`]),
    ...unfit.map((reason) => `UNFIT: ${reason}`),
  ]
}

export function figureText({ value, unit, low, high }: Figure): string {
  if (low === undefined || high === undefined) return valueText(value, unit)
  return `${valueText(value, unit)} (${valueText(low, unit)} to ${valueText(high, unit)})`
}

export function valueText(value: number | null, unit: Unit): string {
  if (value === null) return '-'
  if (unit === 'ms') return `${shortNumber(value)} ms`
  if (unit === 'share') return `${shortNumber(value * 100)} %`
  if (unit === 'per second') return `${shortNumber(value)}/s`
  return shortNumber(value)
}

/** Three significant digits, and no fewer than the integer part has. */
export function shortNumber(value: number): string {
  if (Math.abs(value) >= 100 || Number.isInteger(value))
    return Math.round(value).toLocaleString('en-US')
  return String(Number(value.toPrecision(3)))
}

/** The result in the text format that node-exporter's textfile collector reads. */
export function prometheusText(result: Result): string {
  const families = new Map<string, Figure[]>()
  for (const figure of result.figures) {
    if (figure.value === null) continue
    const name = meterName(result.verb, figure)
    families.set(name, [...(families.get(name) ?? []), figure])
  }
  const lines = [...families].flatMap(([name, figures]) => [
    `# HELP ${name} ${figures[0]!.name} of the last sluice bench ${result.verb}.`,
    `# TYPE ${name} gauge`,
    ...figures.map((figure) => `${name}${labels(figure.of)} ${baseValue(figure)}`),
  ])
  const fit = `sluice_bench_${result.verb}_fit`
  lines.push(
    `# HELP ${fit} 1 when the last run was complete and its figures can be relied on.`,
    `# TYPE ${fit} gauge`,
    `${fit} ${result.fit && result.partial === null ? 1 : 0}`,
    `# HELP sluice_bench_${result.verb}_time_seconds When the last run started.`,
    `# TYPE sluice_bench_${result.verb}_time_seconds gauge`,
    `sluice_bench_${result.verb}_time_seconds ${Date.parse(result.startedAt) / 1000}`,
  )
  return `${lines.join('\n')}\n`
}

const suffixes: Readonly<Record<Unit, string>> = {
  ms: '_seconds',
  'per second': '_per_second',
  share: '_ratio',
  count: '',
  slots: '_slots',
  lamports: '_lamports',
}

function meterName(verb: string, { name, unit }: Figure): string {
  return `sluice_bench_${verb}_${name.replaceAll(/[^a-z0-9]+/g, '_')}${suffixes[unit]}`
}

function baseValue({ value, unit }: Figure): number {
  return unit === 'ms' ? Number((value! / 1000).toPrecision(12)) : value!
}

function labels(of: string): string {
  if (of === '') return ''
  const text = of.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', ' ')
  return `{endpoint="${text}"}`
}

/** Columns as wide as their longest cell; the first to the left, the others to the right. */
export function aligned(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  )
  return rows
    .map((row) =>
      row
        .map((cell, column) =>
          column === 0 ? cell.padEnd(widths[0]!) : cell.padStart(widths[column] ?? 0),
        )
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}
