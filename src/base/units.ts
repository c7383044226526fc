// Parses and formats quantities with a unit: `16MiB`, `30s`, `250Mbit/s`.
// A quantity is stored as a number in its field's unit; this file converts the text forms.
import { formatDuration, parseDuration } from './clock.ts'

/** Units of fields that also accept text with a unit. */
export type Unit = 'bytes' | 'ms' | 'days' | 'Mbit/s'

const dayMs = 86_400_000

const byteUnits: ReadonlyMap<string, number> = new Map(
  Object.entries({
    TiB: 1024 ** 4,
    GiB: 1024 ** 3,
    MiB: 1024 ** 2,
    KiB: 1024,
    TB: 1e12,
    GB: 1e9,
    MB: 1e6,
    kB: 1e3,
    B: 1,
  }),
)

const bitRateUnits: ReadonlyMap<string, number> = new Map(
  Object.entries({
    'Gbit/s': 1e3,
    'Mbit/s': 1,
    'kbit/s': 1e-3,
  }),
)

/** An example of the text form, for documentation and error messages; null without one. */
export function exampleOf(unit: string | undefined): string | null {
  return unit !== undefined && isUnit(unit) ? examples[unit] : null
}

const examples: Readonly<Record<Unit, string>> = {
  bytes: '16MiB',
  ms: '30s',
  days: '7d',
  'Mbit/s': '250Mbit/s',
}

/** The quantity of a text in `unit`; null when the text is not such a quantity. */
export function parseQuantity(text: string, unit: Unit): number | null {
  const trimmed = text.trim()
  if (unit === 'ms') return parseDuration(trimmed)
  if (unit === 'days') {
    const durationMs = parseDuration(trimmed)
    return durationMs === null ? null : durationMs / dayMs
  }
  const match = /^(\d{1,15}(?:\.\d{1,6})?) ?([A-Za-z/]+)$/.exec(trimmed)
  const factor = (unit === 'bytes' ? byteUnits : bitRateUnits).get(match?.[2] ?? '')
  if (match === null || factor === undefined) return null
  return Number((Number(match[1]) * factor).toPrecision(15))
}

/** The shortest exact text form. */
export function formatQuantity(value: number, unit: Unit): string {
  if (unit === 'ms') return Number.isInteger(value) ? formatDuration(value) : `${value}`
  if (unit === 'days') return formatDuration(value * dayMs)
  if (value === 0) return unit === 'bytes' ? '0B' : '0Mbit/s'
  const table = unit === 'bytes' ? byteUnits : bitRateUnits
  const exact = [...table].filter(([, factor]) => Number.isInteger(value / factor))
  const texts = exact.map(([name, factor]) => `${value / factor}${name}`)
  return texts.sort((a, b) => a.length - b.length)[0] ?? `${value}`
}

export function isUnit(unit: string): unit is Unit {
  return Object.hasOwn(examples, unit)
}
