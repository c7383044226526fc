// The intended starts of a load: constant, Poisson or as recorded.
// Every thread computes the same list from the same seed and takes its share of it.
import { SeededRandom } from './statistics.ts'

export interface ArrivalPlan {
  readonly kind: 'constant' | 'poisson' | 'recorded'
  /** Arrivals per second; not used by a recorded plan. */
  readonly rate: number
  readonly seed: number
  /** Arrivals end before this offset from the start. */
  readonly durationMs: number
  /** Number of calls that take turns; not used by a recorded plan. */
  readonly callCount: number
  /** Of a recorded plan: the offset of each start, in milliseconds at the recorded speed. */
  readonly starts?: Float64Array
  /** Of a recorded plan: the call of each start. */
  readonly calls?: Uint32Array
  /** Of a recorded plan: 2 plays it in half the time. */
  readonly speed?: number
}

/** Walks through the arrivals of a plan, those of one of `of` threads. */
export class Arrivals {
  /** Offset of the next intended start from the start of the run; infinite after the last. */
  nextMs = Number.POSITIVE_INFINITY
  /** The call of that arrival. */
  call = 0
  readonly #plan: ArrivalPlan
  readonly #random: SeededRandom
  readonly #share: { readonly thread: number; readonly of: number }
  #index = -1
  #timeMs = 0

  constructor(plan: ArrivalPlan, share = { thread: 0, of: 1 }) {
    this.#plan = plan
    this.#random = new SeededRandom(plan.seed)
    this.#share = share
    this.advance()
  }

  /** Moves on to the next arrival of this thread. */
  advance(): void {
    do {
      this.#index += 1
      this.#timeMs = this.#timeOf(this.#index)
    } while (this.#index % this.#share.of !== this.#share.thread && this.#isWithin())
    this.nextMs = this.#isWithin() ? this.#timeMs : Number.POSITIVE_INFINITY
    this.call = this.#plan.calls?.[this.#index] ?? this.#index % this.#plan.callCount
  }

  #timeOf(index: number): number {
    const { kind, rate, starts, speed = 1 } = this.#plan
    if (kind === 'recorded') return (starts?.[index] ?? Number.POSITIVE_INFINITY) / speed
    if (kind === 'constant') return (index * 1000) / rate
    return this.#timeMs + this.#random.exponential(1000 / rate)
  }

  #isWithin(): boolean {
    return this.#timeMs < this.#plan.durationMs
  }
}
