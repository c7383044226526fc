// A latency histogram with about 1.6 % error in fixed memory: 64 steps to each power of two.
// Thread: any; `counts` can be posted between processes and merged.

const stepBits = 6
const steps = 1 << stepBits
const powers = 42 // 2^42 ns is more than an hour

export class LatencyHistogram {
  readonly counts: Float64Array
  total = 0

  constructor(counts: ArrayLike<number> = new Float64Array(steps * powers)) {
    this.counts = Float64Array.from(counts)
    for (const count of this.counts) this.total += count
  }

  recordNs(ns: number): void {
    this.counts[indexOf(ns)]! += 1
    this.total += 1
  }

  merge(other: LatencyHistogram): void {
    for (let index = 0; index < this.counts.length; index += 1)
      this.counts[index]! += other.counts[index]!
    this.total += other.total
  }

  /** The percentile in microseconds; `share` is 0 to 1. */
  percentileUs(share: number): number {
    let left = Math.ceil(this.total * share)
    for (let index = 0; index < this.counts.length; index += 1) {
      left -= this.counts[index]!
      if (left <= 0) return middleOf(index) / 1000
    }
    return 0
  }

  summary(): { p50: number; p99: number; p999: number } {
    return {
      p50: this.percentileUs(0.5),
      p99: this.percentileUs(0.99),
      p999: this.percentileUs(0.999),
    }
  }
}

function indexOf(ns: number): number {
  if (ns < steps) return Math.max(0, Math.floor(ns))
  const power = Math.floor(Math.log2(ns)) - stepBits
  const index = (power + 1) * steps + Math.floor(ns / 2 ** power) - steps
  return Math.min(index, steps * powers - 1)
}

function middleOf(index: number): number {
  if (index < steps) return index + 0.5
  const power = Math.floor(index / steps) - 1
  return (steps + (index % steps) + 0.5) * 2 ** power
}
