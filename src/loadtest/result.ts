// The result file of every bench verb: one JSON schema, versioned.
// Figures are a flat list, so that compare, Prometheus text and the report work for every verb.
import { readFileSync } from 'node:fs'
import { availableParallelism, cpus } from 'node:os'
import { accept, type Outcome, refuse } from '../base/errors.ts'

export const resultFormat = 'sluice-bench'
/** Raised when a field changes its meaning; new fields do not raise it. */
export const resultVersion = 1

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

export interface Machine {
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
