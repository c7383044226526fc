// The result file of every bench verb: one JSON schema, versioned.
// Figures are a flat list, so that compare, Prometheus text and the report work for every verb.
import { readFileSync } from 'node:fs'
import { availableParallelism, cpus } from 'node:os'
import { parseDuration } from '../base/clock.ts'
import { accept, type Outcome, refuse } from '../base/errors.ts'

const resultFormat = 'sluice-bench'
/** Raised when a field changes its meaning; new fields do not raise it. */
const resultVersion = 1

export type Unit = 'ms' | 'per second' | 'share' | 'count' | 'slots' | 'lamports'

export interface Figure {
  /** Such as `p99`, `first-share`; stable, scripts and conditions use it. */
  readonly name: string
  /** The endpoint or route that it belongs to; '' for the whole run. */
  readonly of: string
  /** Null when nothing was measured. */
  readonly value: number | null
  readonly unit: Unit
  /** 95 % interval, where one is known. */
  readonly low?: number
  readonly high?: number
  /** Which direction is an improvement; left out where none is. */
  readonly better?: 'lower' | 'higher'
}

export interface Result {
  readonly format: typeof resultFormat
  readonly version: typeof resultVersion
  readonly verb: 'load' | 'race' | 'land'
  readonly startedAt: string
  /** Length of the measured part. */
  readonly seconds: number
  /** False when the figures must not be relied on; `unfit` has a sentence for each reason. */
  readonly fit: boolean
  readonly unfit: readonly string[]
  /** Why the run ended early; null for a complete run. */
  readonly partial: string | null
  readonly machine: Machine
  /** What was asked for; never a token, path or query of a URL. */
  readonly settings: Readonly<Record<string, string | number | boolean | null>>
  readonly figures: readonly Figure[]
  /** HdrHistogram V2 in base64, nanoseconds, by name. */
  readonly histograms: Readonly<Record<string, string>>
  /** What only this verb has. */
  readonly detail: Readonly<Record<string, unknown>>
}

interface Machine {
  readonly node: string
  readonly platform: string
  readonly processor: string
  readonly cores: number
}

export type ResultInput = Omit<Result, 'format' | 'version' | 'fit' | 'machine'>

export function resultOf(input: ResultInput): Result {
  const head = { format: resultFormat, version: resultVersion } as const
  return { ...head, ...input, fit: input.unfit.length === 0, machine: thisMachine() }
}

export function figureIn(result: Pick<Result, 'figures'>, name: string, of = ''): Figure | null {
  return result.figures.find((figure) => figure.name === name && figure.of === of) ?? null
}

/** Reads a result file; the message of a refusal names the file and what is wrong with it. */
export function readResult(path: string): Outcome<Result> {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch {
    return refuse('not-found', 'no-file', `there is no readable file ${path}`)
  }
  const given = parsed(text)
  if (given?.format !== resultFormat)
    return refuse('invalid', 'bad-result', `${path} is no result of sluice bench`)
  if (given.version !== resultVersion)
    return refuse(
      'invalid',
      'bad-result',
      `${path} has version ${given.version} of the format; this program reads ${resultVersion}`,
    )
  if (!Array.isArray(given.figures) || !given.figures.every(isFigure))
    return refuse('invalid', 'bad-result', `${path} is damaged: its figures cannot be read`)
  return accept(given as Result)
}

function parsed(text: string): Partial<Result> | null {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : null
  } catch {
    return null
  }
}

function isFigure(value: Partial<Figure> | null): boolean {
  if (typeof value !== 'object' || value === null) return false
  const { name, of, value: number } = value
  return (
    typeof name === 'string' &&
    typeof of === 'string' &&
    (number === null || typeof number === 'number')
  )
}

export function thisMachine(): Machine {
  return {
    node: process.version,
    platform: `${process.platform} ${process.arch}`,
    processor: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
  }
}

// Renders a result as a table for the terminal and as text for Prometheus.

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

// Parses the quantities of a bench's command line: rates, shares, conditions.

const thousands: Readonly<Record<string, number>> = { '': 1, k: 1e3, M: 1e6 }
const microsecondMs = 1e-3

/** Arrivals per second of `5000`, `5k`, `2.5k/s` or `0.5`; null when the text is no rate. */
export function parseRate(text: string): number | null {
  const match = /^(\d{1,12}(?:\.\d{1,6})?)(k|M)?(?:\/s)?$/.exec(text.trim())
  if (match === null) return null
  const rate = Number(match[1]) * thousands[match[2] ?? '']!
  return rate > 0 ? rate : null
}

/** 0.1 of `10%`; null when the text is no percentage. */
export function parsePercent(text: string): number | null {
  const match = /^(\d{1,6}(?:\.\d{1,6})?) ?%$/.exec(text.trim())
  return match === null ? null : Number(match[1]) / 100
}

/** A bound on a figure of the result, such as `p99<5ms`. */
export interface Condition {
  readonly figure: string
  readonly relation: '<' | '>'
  /** In the unit of the figure: milliseconds, share of 1, or a plain number. */
  readonly bound: number
  readonly text: string
}

/** The conditions of `p99<5ms,errors<0.1%`. Figures outside `known` are refused. */
export function parseConditions(
  flag: string,
  text: string,
  known: readonly string[],
): Outcome<readonly Condition[]> {
  const conditions: Condition[] = []
  for (const part of text.split(',')) {
    const match = /^\s*([a-z][a-z0-9.-]*)\s*([<>])\s*(\S+)\s*$/.exec(part)
    const [, figure = '', relation = '<', bound = ''] = match ?? []
    const value = boundOf(bound)
    if (match === null || value === null)
      return bad(`--${flag} is a list such as p99<5ms,errors<0.1%; "${part.trim()}" is none`)
    if (!known.includes(figure))
      return bad(`--${flag} has no figure "${figure}"; there are ${known.join(', ')}`)
    // Reason for the cast: the pattern has only these two.
    conditions.push({ figure, relation: relation as '<' | '>', bound: value, text: part.trim() })
  }
  return accept(conditions)
}

/** Null is a figure that was not measured: it meets no condition. */
export function meets(value: number | null, { relation, bound }: Condition): boolean {
  if (value === null || !Number.isFinite(value)) return false
  return relation === '<' ? value < bound : value > bound
}

function boundOf(text: string): number | null {
  const micro = /^(\d{1,9}(?:\.\d{1,3})?)us$/.exec(text)
  if (micro !== null) return Number(micro[1]) * microsecondMs
  const milli = /^(\d{1,9}\.\d{1,6})ms$/.exec(text)
  if (milli !== null) return Number(milli[1])
  return parsePercent(text) ?? parseDuration(text) ?? parseRate(text) ?? (text === '0' ? 0 : null)
}

function bad(message: string): Outcome<never> {
  return refuse('invalid', 'usage', message)
}
