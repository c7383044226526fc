// Rate-limits each of many names (client addresses, fee payers) with its own token bucket.
// Bounded: a full bucket carries no information and is dropped; when the table is
// full, the oldest bucket is evicted.
import { Bucket, type Rate } from '../../base/bucket.ts'

const namesMax = 100_000
/** Buckets checked per new name, which keeps the table small without scanning all of it. */
const sweepEach = 4

export class Rates {
  readonly #rate: Rate
  readonly #buckets = new Map<string, Bucket>()
  #sweep: Iterator<[string, Bucket]> | null = null

  constructor(rate: Rate) {
    this.#rate = rate
  }

  /** Takes `cost` and returns 0, or takes nothing and returns the milliseconds to wait for it. */
  take(name: string, nowMs: number, cost = 1): number {
    const waitMs = this.waitMs(name, nowMs, cost)
    if (waitMs === 0) this.charge(name, nowMs, cost)
    return waitMs
  }

  /** Milliseconds until `cost` can be taken, without taking it. */
  waitMs(name: string, nowMs: number, cost: number): number {
    const bucket = this.#buckets.get(name)
    if (bucket !== undefined) return bucket.waitMs(cost, nowMs)
    return cost <= this.#rate.burst ? 0 : Number.POSITIVE_INFINITY
  }

  /** Takes `cost` even when the bucket has less: the debt delays later takes. */
  charge(name: string, nowMs: number, cost: number): void {
    let bucket = this.#buckets.get(name)
    if (bucket === undefined) {
      this.#evict(nowMs)
      bucket = new Bucket(this.#rate)
      this.#buckets.set(name, bucket)
    }
    bucket.take(cost, nowMs)
  }

  get size(): number {
    return this.#buckets.size
  }

  #evict(nowMs: number): void {
    for (let checked = 0; checked < sweepEach; checked++) {
      this.#sweep ??= this.#buckets.entries()
      const next = this.#sweep.next()
      if (next.done === true) {
        this.#sweep = null
        break
      }
      const [name, bucket] = next.value
      if (bucket.fullInMs(nowMs) === 0) this.#buckets.delete(name)
    }
    if (this.#buckets.size < namesMax) return
    const { value } = this.#buckets.keys().next()
    if (value !== undefined) this.#buckets.delete(value)
  }
}
