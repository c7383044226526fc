// What the outbox asks of a feed, and the two feeds that are plain queues. Thread: main.
// A source is pulled: it reads on only when there is room for what it reads.
import type { CounterChild } from '../../../telemetry/meters.ts'
import type { EventParcel, SlotParcel, SlotRange, TipFact, UsageFact } from '../parcels.ts'

/** One thing on its way, with what the outbox must know of it. */
export type Parcel = {
  readonly bytes: number
  /** Monotonic milliseconds at which it was said. */
  readonly sinceMs: number
  /** How far its feed is taken in with it; null when that says nothing. */
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
  /** The next thing that is whole; null when there is none now. */
  next(): Parcel | null
  /** When the oldest thing that `next` has not given was said, or somewhat before; null if none. */
  waitingSinceMs(): number | null
}

/** Rows that wait in memory; nobody can tell them again. */
export const queueMax = 10_000
/** What one of them costs, about. */
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

  /** A fact over the bound is lost, and counted. */
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
