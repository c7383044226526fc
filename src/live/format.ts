// Formats figures for the page: fixed digits, so that columns stay aligned.

const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 })

export function count(value: number): string {
  return Number.isFinite(value) ? whole.format(value) : '–'
}

/** More digits the nearer to 100: 71.4, 98.21, 99.93. */
export function percent(value: number): string {
  if (!Number.isFinite(value)) return '–'
  return value.toFixed(value >= 90 ? 2 : 1)
}

export function millis(value: number): string {
  if (!Number.isFinite(value)) return '–'
  if (value >= 100) return whole.format(value)
  return value >= 10 ? value.toFixed(1) : value.toFixed(2)
}

/** 12.3k, 4.5M: a rate or a size in a narrow column. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return '–'
  if (Math.abs(value) >= 1e15) return value.toExponential(1)
  const steps = [
    [1e9, 'G'],
    [1e6, 'M'],
    [1e4, 'k'],
  ] as const
  for (const [size, unit] of steps)
    if (Math.abs(value) >= size) return `${(value / (unit === 'k' ? 1e3 : size)).toFixed(1)}${unit}`
  return value === 0 || Math.abs(value) >= 100 ? whole.format(value) : trimmed(value)
}

/** Beyond this many digits a whole number would not fit a cell. */
const wholeMax = 1e12

/** A whole number, shortened where it is absurdly long; null is unknown. */
export function figure(value: number | null | undefined): string {
  const known = value ?? Number.NaN
  return Math.abs(known) >= wholeMax ? short(known) : count(known)
}

function trimmed(value: number): string {
  return value.toFixed(Math.abs(value) >= 10 ? 1 : 2).replace(/\.?0+$/, '')
}

/** 0x1234…cdef */
export function shortHex(text: string, head = 4, tail = 4): string {
  return text.length <= head + tail + 3 ? text : `${text.slice(0, 2 + head)}…${text.slice(-tail)}`
}

/** A storage slot: small ones are numbers that people know, the rest are hashes. */
export function shortSlot(slot: string): string {
  const digits = slot.replace(/^0x0*/, '')
  return digits.length <= 6 ? `0x${digits === '' ? '0' : digits}` : shortHex(slot)
}

export function clockTime(ms: number): string {
  const date = new Date(ms)
  const two = (value: number) => String(value).padStart(2, '0')
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`
}

export function seconds(ms: number): string {
  return `${Math.max(0, Math.floor(ms / 1000))} s`
}

/** The value below which `part` of the sorted values lie; NaN without values. */
export function quantile(sorted: readonly number[], part: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
}
