// A rate with a burst: the generic cell rate algorithm, one number of state. Thread: any. Pure.
// In any stretch of t seconds it admits at most burst + rate x t; property-tested.
//
// Time is counted in the credits that flow in it. `debt end` is the moment at which all that was
// taken will have been regained; its distance from now is what is missing to a full bucket.
//
//          now                debt end            now + burst
//   --------|--------- taken ------|---- available ----|-------> credits

/** Rounding must not refuse the last credit of a full bucket; far below one credit. */
const roundingCredits = 1e-6

export interface Rate {
  readonly perSecond: number
  readonly burst: number
}

export class Bucket {
  #perMs: number
  #burst: number
  #debtEnd = Number.NEGATIVE_INFINITY

  constructor(rate: Rate) {
    this.#perMs = rate.perSecond / 1000
    this.#burst = rate.burst
  }

  /** Milliseconds until `cost` can be taken: 0 is now, Infinity is never, as it tops the burst. */
  waitMs(cost: number, nowMs: number): number {
    if (cost > this.#burst) return Number.POSITIVE_INFINITY
    const missing = this.#debt(nowMs) + cost - this.#burst
    return missing <= roundingCredits ? 0 : missing / this.#perMs
  }

  /** Takes `cost`; the caller has seen that `waitMs` is 0. */
  take(cost: number, nowMs: number): void {
    this.#debtEnd = Math.max(this.#debtEnd, nowMs * this.#perMs) + cost
  }

  /** Whole credits that can be taken now. */
  available(nowMs: number): number {
    return Math.max(0, Math.floor(this.#burst - this.#debt(nowMs) + roundingCredits))
  }

  fullInMs(nowMs: number): number {
    return this.#debt(nowMs) / this.#perMs
  }

  /** Another rate from now on. What is missing stays missing, up to the new burst. */
  change(rate: Rate, nowMs: number): void {
    const debt = Math.min(this.#debt(nowMs), rate.burst)
    this.#perMs = rate.perSecond / 1000
    this.#burst = rate.burst
    this.#debtEnd = nowMs * this.#perMs + debt
  }

  #debt(nowMs: number): number {
    return Math.max(0, this.#debtEnd - nowMs * this.#perMs)
  }
}
