// Caches an expensive answer: rebuilds it at a bounded rate, and beyond it returns the last one to
// all callers.

import { Bucket, type Rate } from '../../base/bucket.ts'
import type { Clock } from '../../base/clock.ts'

export class SharedAnswer<T> {
  readonly #bucket: Bucket
  readonly #clock: Clock
  readonly #make: () => T
  #last: T | undefined

  constructor(rate: Rate, clock: Clock, make: () => T) {
    this.#bucket = new Bucket(rate)
    this.#clock = clock
    this.#make = make
  }

  /** A new answer while the rate allows it, else the last one. */
  get(): T {
    const nowMs = this.#clock.monotonicMs()
    if (this.#last !== undefined && this.#bucket.waitMs(1, nowMs) > 0) return this.#last
    this.#bucket.take(1, nowMs)
    this.#last = this.#make()
    return this.#last
  }
}
