// A rate for each of many names: client addresses, fee payers. Thread: main. Called by handle.ts.
// Bounded: full buckets say nothing and are dropped; when strangers fill the table, so is the one
// that was made first.
import { Bucket, type Rate } from '../../quota/bucket.ts'

const namesMax = 100_000
/** Buckets looked at per new name, which keeps the table small without a walk through all of it. */
const sweepEach = 4

export class Rates {
  readonly #rate: Rate
  readonly #buckets = new Map<string, Bucket>()
  #sweep: Iterator<[string, Bucket]> | null = null

  constructor(rate: Rate) {
    this.#rate = rate
  }

  /** Takes one; 0 when there was one, else the milliseconds until there is. */
  take(name: string, nowMs: number): number {
    let bucket = this.#buckets.get(name)
    if (bucket === undefined) {
      this.#makeRoom(nowMs)
      bucket = new Bucket(this.#rate)
      this.#buckets.set(name, bucket)
    }
    const waitMs = bucket.waitMs(1, nowMs)
    if (waitMs === 0) bucket.take(1, nowMs)
    return waitMs
  }

  get size(): number {
    return this.#buckets.size
  }

  #makeRoom(nowMs: number): void {
    for (let looked = 0; looked < sweepEach; looked++) {
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
