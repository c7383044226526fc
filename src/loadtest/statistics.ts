// Statistics of a bench: seeded random numbers, Wilson and bootstrap intervals.

export interface Interval {
  readonly low: number
  readonly high: number
}

/** Normal quantile of a 95 % interval. */
const z95 = 1.959964
const resamplesDefault = 1_000

/** A seeded generator of random numbers (mulberry32): the same seed gives the same numbers. */
export class SeededRandom {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** From 0 up to, not including, 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  /** Time to the next arrival of a Poisson process. */
  exponential(mean: number): number {
    return -Math.log(1 - this.next()) * mean
  }

  below(limit: number): number {
    return Math.floor(this.next() * limit)
  }
}

/** 95 % Wilson score interval of a share; right also near 0 and 1. No trials: 0 to 1. */
export function wilson(count: number, total: number): Interval {
  if (total === 0) return { low: 0, high: 1 }
  const share = count / total
  const square = z95 * z95
  const middle = (share + square / (2 * total)) / (1 + square / total)
  const spread = Math.sqrt((share * (1 - share)) / total + square / (4 * total * total))
  const half = (z95 * spread) / (1 + square / total)
  // At the ends the formula gives 0 and 1 but for rounding.
  return {
    low: count === 0 ? 0 : Math.max(0, middle - half),
    high: count === total ? 1 : Math.min(1, middle + half),
  }
}

/** Values in groups that are not independent inside: transactions of a slot, calls of a second. */
export interface Grouped {
  readonly values: ArrayLike<number>
  /** The group of each value, 0 to `groupCount` - 1. */
  readonly groups: ArrayLike<number>
  readonly groupCount: number
  /** How often each value occurred; left out, once. */
  readonly weights?: ArrayLike<number>
}

/** The quantile of all values; null without values. */
export function quantileOf(given: Grouped, share: number): number | null {
  const ones = new Float64Array(given.groupCount).fill(1)
  return weightedQuantile(given, orderOf(given), ones, share)
}

/**
 * 95 % interval of a quantile by bootstrap over groups; null with fewer than two groups. Resamples
 * of few groups vary too little: the t distribution of their number moves the percentiles outwards.
 */
export function bootstrapQuantile(
  given: Grouped,
  share: number,
  random: SeededRandom,
  resamples = resamplesDefault,
): Interval | null {
  if (given.groupCount < 2 || given.values.length === 0) return null
  const order = orderOf(given)
  const drawn = new Float64Array(given.groupCount)
  const found: number[] = []
  for (let round = 0; round < resamples; round += 1) {
    drawn.fill(0)
    for (let pick = 0; pick < given.groupCount; pick += 1)
      drawn[random.below(given.groupCount)]! += 1
    const value = weightedQuantile(given, order, drawn, share)
    if (value !== null) found.push(value)
  }
  if (found.length === 0) return null
  const sorted = Float64Array.from(found).sort()
  const tail = tailOf(given.groupCount)
  return {
    low: sorted[Math.floor(tail * (sorted.length - 1))]!,
    high: sorted[Math.ceil((1 - tail) * (sorted.length - 1))]!,
  }
}

/** Part of the resamples beyond each end: 0.025 for many groups, less for few. */
function tailOf(groups: number): number {
  const freedom = groups - 1
  return normalTail(Math.sqrt(groups / freedom) * studentQuantile(freedom))
}

/** Student's t at 97.5 % (Cornish-Fisher expansion). */
function studentQuantile(freedom: number): number {
  const z = z95
  const first = (z ** 3 + z) / 4
  const second = (5 * z ** 5 + 16 * z ** 3 + 3 * z) / 96
  const third = (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / 384
  return z + first / freedom + second / freedom ** 2 + third / freedom ** 3
}

/** Probability that a normal variable exceeds `x` > 0 (Abramowitz and Stegun 26.2.17). */
function normalTail(x: number): number {
  const t = 1 / (1 + 0.2316419 * x)
  const tail = t * (-1.821255978 + t * 1.330274429)
  const series = t * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + tail)))
  return (Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI)) * series
}

function orderOf({ values }: Grouped): Uint32Array {
  const order = Uint32Array.from({ length: values.length }, (_, index) => index)
  return order.sort((a, b) => values[a]! - values[b]!)
}

function weightedQuantile(
  { values, groups, weights }: Grouped,
  order: Uint32Array,
  times: Float64Array,
  share: number,
): number | null {
  let total = 0
  for (let index = 0; index < values.length; index += 1)
    total += times[groups[index]!]! * (weights?.[index] ?? 1)
  if (total === 0) return null
  const wanted = Math.max(share * total, Number.MIN_VALUE)
  let seen = 0
  for (const index of order) {
    const weight = times[groups[index]!]! * (weights?.[index] ?? 1)
    seen += weight
    if (weight > 0 && seen >= wanted) return values[index]!
  }
  return null
}
