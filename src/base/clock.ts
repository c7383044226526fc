// Time: the clock that is passed in, so that a test can stop it, back-off delays, and durations.

export interface Clock {
  /** Wall-clock time, milliseconds since 1970. Only for what people or other machines read. */
  nowMs(): number
  /** Monotonic milliseconds with a fraction. For ages, deadlines and rates. */
  monotonicMs(): number
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
}

/** Exponential back-off with jitter: the delay before every retry, reconnect and restart. */
export interface Backoff {
  readonly firstMs: number
  readonly lastMs: number
}

/**
 * Delay after that many failures in a row (1 or more): doubles from `firstMs` up to `lastMs`. Half
 * of it is random, so that many clients do not return at once; it never exceeds the doubled value.
 */
export function backoffMs(failures: number, { firstMs, lastMs }: Backoff): number {
  const delayMs = Math.min(lastMs, firstMs * 2 ** (failures - 1))
  return delayMs * (0.5 + Math.random() / 2)
}

// Durations are `500ms`, `90s`, `30m`, `1h30m`, `7d`.
const unitMs: Readonly<Record<string, number>> = {
  d: 86_400_000,
  h: 3_600_000,
  m: 60_000,
  s: 1000,
  ms: 1,
}
const part = /(\d{1,12})(ms|[dhms])/y

/** Milliseconds, or null for an invalid duration, such as a number without a unit. */
export function parseDuration(text: string): number | null {
  let totalMs = 0
  let position = 0
  while (position < text.length) {
    part.lastIndex = position
    const match = part.exec(text)
    if (match === null) return null
    totalMs += Number(match[1]) * unitMs[match[2]!]!
    position = part.lastIndex
  }
  return position > 0 && Number.isSafeInteger(totalMs) ? totalMs : null
}

/** The shortest exact form: 5,400,000 is `1h30m`, 0 is `0s`. */
export function formatDuration(durationMs: number): string {
  let text = ''
  let rest = Math.max(0, Math.round(durationMs))
  for (const [unit, size] of Object.entries(unitMs)) {
    const count = Math.floor(rest / size)
    rest -= count * size
    if (count > 0) text += `${count}${unit}`
  }
  return text === '' ? '0s' : text
}
