// Plain-number counters that are read at scrape, for hot paths where a labelled child per event
// is too expensive. Exposed through `counterRead` and `histogramRead`.
import { latencyBuckets } from './meters.ts'

/** Durations in the buckets of `latencyBuckets`. */
export class LatencyTally {
  readonly buckets: readonly number[] = latencyBuckets
  readonly #counts = new Float64Array(latencyBuckets.length + 1)
  #sum = 0

  observeMs(ms: number): void {
    const seconds = ms / 1000
    let bucket = 0
    while (bucket < this.buckets.length && seconds > this.buckets[bucket]!) bucket++
    this.#counts[bucket]!++
    this.#sum += seconds
  }

  read(): { readonly counts: readonly number[]; readonly sum: number } {
    return { counts: [...this.#counts], sum: this.#sum }
  }
}

/** One count per pair of two closed sets; a name outside the first set counts as its last. */
export class PairTally<A extends string, B extends string> {
  readonly #rows: ReadonlyMap<string, number>
  readonly #first: readonly A[]
  readonly #second: readonly B[]
  readonly #counts: Float64Array

  constructor(first: readonly A[], second: readonly B[]) {
    this.#first = first
    this.#second = second
    this.#rows = new Map(first.map((name, index) => [name, index]))
    this.#counts = new Float64Array(first.length * second.length)
  }

  count(first: string, second: B): void {
    const row = this.#rows.get(first) ?? this.#first.length - 1
    this.#counts[row * this.#second.length + this.#second.indexOf(second)]!++
  }

  *read(): Iterable<readonly [A, B, number]> {
    for (const [row, first] of this.#first.entries())
      for (const [column, second] of this.#second.entries())
        yield [first, second, this.#counts[row * this.#second.length + column]!]
  }
}
