// Whether a series rises: the slope of Theil and Sen with its confidence interval.
// The interval follows from Kendall's S (Sen 1968). Samples of memory are not independent, as
// garbage comes and goes: of each block of samples the least is taken, which has the least garbage,
// and the variance of S is raised by what autocorrelation of lag one remains.
import { median } from '../testkit/memory-probe.ts'

export interface Slope {
  /** Per unit of x. */
  readonly value: number
  readonly low: number
  readonly high: number
  readonly points: number
}

type Point = readonly [x: number, y: number]

/** Null with fewer than eight blocks: an interval of less means nothing. */
const pointsMin = 8

/** The least of each block of `size` points; what is left at the end is dropped. */
export function blocksOf(points: readonly Point[], size: number): Point[] {
  return Array.from({ length: Math.floor(points.length / size) }, (_, block) => {
    const some = points.slice(block * size, (block + 1) * size)
    return [median(some.map(([x]) => x)), Math.min(...some.map(([, y]) => y))]
  })
}

/** `z` is the normal quantile of the interval. */
export function slopeOf(points: readonly Point[], z: number): Slope | null {
  if (points.length < pointsMin) return null
  const slopes: number[] = []
  for (const [at, [x, y]] of points.entries())
    for (const [laterX, laterY] of points.slice(at + 1)) slopes.push((laterY - y) / (laterX - x))
  slopes.sort((a, b) => a - b)
  const value = median(slopes)
  const count = points.length
  const variance = (count * (count - 1) * (2 * count + 5)) / 18
  const reach = z * Math.sqrt(variance * inflation(points, value))
  const at = (rank: number) =>
    slopes[Math.min(slopes.length - 1, Math.max(0, Math.round(rank)))] as number
  return {
    value,
    low: at((slopes.length - reach) / 2 - 1),
    high: at((slopes.length + reach) / 2),
    points: count,
  }
}

/** (1 + r) / (1 - r) of the rest without its trend; at least 1. */
function inflation(points: readonly Point[], slope: number): number {
  const rest = points.map(([x, y]) => y - slope * x)
  const mean = rest.reduce((sum, value) => sum + value, 0) / rest.length
  let [product, square] = [0, 0]
  for (const [at, value] of rest.entries()) {
    square += (value - mean) ** 2
    if (at > 0) product += (value - mean) * (rest[at - 1]! - mean)
  }
  const r = square === 0 ? 0 : Math.min(0.9, Math.max(0, product / square))
  return (1 + r) / (1 - r)
}

/** Normal quantile of a two-sided interval that errs with `probability`. */
export function quantileOf(probability: number): number {
  let [low, high] = [0, 10]
  while (high - low > 1e-9) {
    const middle = (low + high) / 2
    if (tailOf(middle) * 2 > probability) low = middle
    else high = middle
  }
  return low
}

/** Probability that a normal variable exceeds x > 0 (Abramowitz and Stegun 26.2.17). */
function tailOf(x: number): number {
  const t = 1 / (1 + 0.2316419 * x)
  const inner = t * (-1.821255978 + t * 1.330274429)
  const series = t * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + inner)))
  return (Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI)) * series
}
