// Counters and histograms that workers keep in shared memory and the main thread sums at scrape.
// Thread: any. Each thread writes a block of its own, so counting needs no atomic operation.
//
//   block of thread 0              block of thread 1
//   +---------------------------+  +---------------------------+
//   | counter f64 ...           |  | counter f64 ...           |   each block starts on a cache
//   | histogram: count f64 per  |  | ...                       |   line of its own (128 bytes)
//   |   bucket, +Inf, sum       |  |                           |
//   +---------------------------+  +---------------------------+
//
// A number is a float64: exact up to 2^53, stored by one machine instruction. A restarted worker
// takes the block of the one before it, so a total never falls.
import { assert } from '../base/assert.ts'
import { cacheLineBytes } from './layout.ts'

/** The names, agreed between the worker and whoever declares the meters. */
export interface CounterNames<C extends string, H extends string> {
  readonly counters: readonly C[]
  /** Upper bounds of the buckets, ascending; +Inf is added. */
  readonly histograms: Readonly<Record<H, readonly number[]>>
}

export interface CountersDescriptor<C extends string, H extends string> {
  readonly names: CounterNames<C, H>
  readonly threads: number
  readonly buffer: SharedArrayBuffer
}

export interface SharedCounter {
  inc(by?: number): void
}
export interface SharedHistogram {
  observe(value: number): void
}

export function allocateCounters<const C extends string, const H extends string>(
  names: CounterNames<C, H>,
  threads: number,
): CountersDescriptor<C, H> {
  assert(threads > 0, 'counters belong to at least one thread')
  const buffer = new SharedArrayBuffer(threads * placesOf(names).blockBytes)
  return { names, threads, buffer }
}

/** The writing side: one per thread. Look counters up once, outside the hot path. */
export class CounterBlock<C extends string, H extends string> {
  readonly #names: CounterNames<C, H>
  readonly #places: Map<string, number>
  readonly #numbers: Float64Array

  constructor(descriptor: CountersDescriptor<C, H>, thread: number) {
    assert(thread >= 0 && thread < descriptor.threads, 'a thread has a block of counters')
    const { places, blockBytes } = placesOf(descriptor.names)
    this.#names = descriptor.names
    this.#places = places
    this.#numbers = new Float64Array(descriptor.buffer, thread * blockBytes, blockBytes / 8)
  }

  counter(name: C): SharedCounter {
    const at = this.#placeOf(name)
    const numbers = this.#numbers
    return {
      inc(by = 1) {
        numbers[at]! += by
      },
    }
  }

  histogram(name: H): SharedHistogram {
    const at = this.#placeOf(name)
    const numbers = this.#numbers
    const bounds = this.#names.histograms[name]
    const sumAt = at + bounds.length + 1
    return {
      observe(value) {
        let bucket = 0
        while (bucket < bounds.length && value > bounds[bucket]!) bucket += 1
        numbers[at + bucket]! += 1
        numbers[sumAt]! += value
      },
    }
  }

  #placeOf(name: string): number {
    const at = this.#places.get(name)
    assert(at !== undefined, `counter ${name} is declared`)
    return at
  }
}

/** The reading side: sums over all threads, for `Meters.counterRead` and `histogramRead`. */
export class CounterTotals<C extends string, H extends string> {
  readonly #descriptor: CountersDescriptor<C, H>
  readonly #places: Map<string, number>
  readonly #blockNumbers: number
  readonly #numbers: Float64Array

  constructor(descriptor: CountersDescriptor<C, H>) {
    const { places, blockBytes } = placesOf(descriptor.names)
    this.#descriptor = descriptor
    this.#places = places
    this.#blockNumbers = blockBytes / 8
    this.#numbers = new Float64Array(descriptor.buffer)
  }

  counter(name: C): number {
    return this.#sum(this.#places.get(name)!)
  }

  /** Counts per bucket (the last is +Inf), not yet cumulative, and the sum of all values. */
  histogram(name: H): { readonly counts: readonly number[]; readonly sum: number } {
    const at = this.#places.get(name)!
    const buckets = this.#descriptor.names.histograms[name].length + 1
    const counts = Array.from({ length: buckets }, (_, bucket) => this.#sum(at + bucket))
    return { counts, sum: this.#sum(at + buckets) }
  }

  #sum(at: number): number {
    let total = 0
    for (let thread = 0; thread < this.#descriptor.threads; thread += 1)
      total += this.#numbers[thread * this.#blockNumbers + at]!
    return total
  }
}

function placesOf(names: CounterNames<string, string>): {
  places: Map<string, number>
  blockBytes: number
} {
  const places = new Map<string, number>()
  let next = 0
  const place = (name: string, numbers: number) => {
    assert(!places.has(name), `counter ${name} is declared once`)
    places.set(name, next)
    next += numbers
  }
  for (const name of names.counters) place(name, 1)
  for (const [name, bounds] of Object.entries(names.histograms)) place(name, bounds.length + 2)
  return { places, blockBytes: Math.ceil((next * 8) / cacheLineBytes) * cacheLineBytes }
}
