// Parses the quantities of a bench's command line: rates, shares, conditions.
import { parseDuration } from '../base/clock.ts'
import { accept, type Outcome, refuse } from '../base/errors.ts'

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
