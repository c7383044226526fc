// Rate limiter with a burst: the generic cell rate algorithm as a leaky bucket.
// In any period of t seconds it admits at most burst + rate x t; property-tested.
//
// The state is the debt: what was taken and has not been refilled yet, as of the last take. It is
// relative to that moment and not an absolute time, so that a year of uptime costs no precision.
//
//   0 ----- debt -----|-------- available --------| burst
//     <- refilled at the rate

/** Rounding must not refuse the last credit of a full bucket; this is far below one credit. */
const roundingCredits = 1e-6

export interface Rate {
  readonly perSecond: number
  readonly burst: number
}

/** A rate with a burst: a bucket alone, or a share of one among several gateways. */
export type Limiter = Pick<Bucket, 'waitMs' | 'take' | 'available' | 'fullInMs' | 'change'>

export class Bucket {
  #perMs: number
  #burst: number
  #debt = 0
  #takenAtMs = 0

  constructor(rate: Rate) {
    this.#perMs = rate.perSecond / 1000
    this.#burst = rate.burst
  }

  /** Milliseconds until `cost` can be taken: 0 is now, Infinity is never (it exceeds the burst). */
  waitMs(cost: number, nowMs: number): number {
    if (cost > this.#burst) return Number.POSITIVE_INFINITY
    const missing = this.#debtAt(nowMs) + cost - this.#burst
    return missing <= roundingCredits ? 0 : missing / this.#perMs
  }

  /** Takes `cost`; the caller has checked that `waitMs` is 0. */
  take(cost: number, nowMs: number): void {
    this.#debt = this.#debtAt(nowMs) + cost
    this.#takenAtMs = nowMs
  }

  /** Whole credits that can be taken now. */
  available(nowMs: number): number {
    return Math.max(0, Math.floor(this.#burst - this.#debtAt(nowMs) + roundingCredits))
  }

  fullInMs(nowMs: number): number {
    return this.#debtAt(nowMs) / this.#perMs
  }

  /** Changes the rate from now on. The debt stays, up to the new burst. */
  change(rate: Rate, nowMs: number): void {
    this.#debt = Math.min(this.#debtAt(nowMs), rate.burst)
    this.#takenAtMs = nowMs
    this.#perMs = rate.perSecond / 1000
    this.#burst = rate.burst
  }

  #debtAt(nowMs: number): number {
    return Math.max(0, this.#debt - (nowMs - this.#takenAtMs) * this.#perMs)
  }
}
