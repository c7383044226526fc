// The interface of a source that the outbox pulls, and `QueueSource` for tips and usage.
// Thread: main. A source is read only while the outbox's window has space (backpressure).
import type { CounterChild } from '../../../telemetry/meters.ts'
import type { EventParcel, SlotParcel, SlotRange, TipFact, UsageFact } from '../parcels.ts'

/** One update for the index, with what the outbox must know about it. */
export type Parcel = {
  readonly bytes: number
  /** Monotonic milliseconds at which the update happened. */
  readonly sinceMs: number
  /** Position of its feed once this parcel is durable; null when it does not advance. */
  readonly mark: number | null
} & (
  | {
      readonly feed: 'slots'
      readonly content: SlotParcel
      readonly cut: SlotRange | null
    }
  | { readonly feed: 'events'; readonly content: EventParcel }
  | { readonly feed: 'tips'; readonly content: TipFact }
  | { readonly feed: 'usage'; readonly content: UsageFact }
)

export interface Source {
  /** The next complete parcel; null when there is none now. */
  next(): Parcel | null
  /** Lower bound of the time of the oldest update not yet returned by `next`; null if none. */
  waitingSinceMs(): number | null
}

/** Most facts queued in memory; they cannot be replayed from a log. */
export const queueMax = 10_000
/** Approximate size of one fact. */
const queuedBytes = 400

type Pack<T> = (fact: T, about: { bytes: number; sinceMs: number; mark: null }) => Parcel

export class QueueSource<T> implements Source {
  readonly #pack: Pack<T>
  readonly #lost: CounterChild
  #queue: { readonly fact: T; readonly sinceMs: number }[] = []
  #first = 0

  constructor(pack: Pack<T>, lost: CounterChild) {
    this.#pack = pack
    this.#lost = lost
  }

  /** A fact beyond the bound is lost, and counted. */
  push(fact: T, sinceMs: number): void {
    if (this.#queue.length - this.#first >= queueMax) this.#lost.inc()
    else this.#queue.push({ fact, sinceMs })
  }

  next(): Parcel | null {
    const waiting = this.#queue[this.#first]
    if (waiting === undefined) return null
    this.#first++
    if (this.#first === this.#queue.length || this.#first >= queueMax) {
      this.#queue = this.#queue.slice(this.#first)
      this.#first = 0
    }
    return this.#pack(waiting.fact, { bytes: queuedBytes, sinceMs: waiting.sinceMs, mark: null })
  }

  waitingSinceMs(): number | null {
    return this.#queue[this.#first]?.sinceMs ?? null
  }
}
