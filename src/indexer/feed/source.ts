// The interface of a source that the outbox pulls, and the sources of frames, tips and usage.
// A source is read only while the outbox's window has space (backpressure).

import type { CounterChild } from '../../base/telemetry/meters.ts'
import type { EventLog } from '../../streams/log/log.ts'
import type { Parcel } from '../parcels.ts'

export interface Source {
  /** The next complete parcel; null when none is ready. */
  next(): Parcel | null
  /** Lower bound of the time of the oldest update not yet returned by `next`; null if none. */
  waitingSinceMs(): number | null
}

/** Approximate overhead of an event in addition to its payload. */
const eventOverheadBytes = 200

/** Reads the event log by a cursor. Frames evicted before they were read are lost, and counted. */
export class EventSource implements Source {
  readonly #log: EventLog
  readonly #lost: CounterChild
  #cursor: number

  /** Starts with the oldest frame of the log. */
  constructor(log: EventLog, lost: CounterChild) {
    this.#log = log
    this.#lost = lost
    this.#cursor = log.oldestSeq === 0 ? log.position : log.oldestSeq - 1
  }

  /** Continues after the index's mark, where several gateways have one numbering. */
  resume(mark: number | undefined): void {
    if (mark !== undefined && mark <= this.#log.position)
      this.#cursor = Math.max(this.#cursor, mark)
  }

  /** Numbers that a new run leaves out are not lost. Returns the function that ends it. */
  watchRestarts(): () => void {
    return this.#log.onRestart((last) => {
      if (last > this.#cursor) this.#lost.inc(last - this.#cursor)
      this.#cursor = this.#log.position
    })
  }

  next(): Parcel | null {
    const oldest = this.#log.oldestSeq
    if (oldest > this.#cursor + 1) {
      this.#lost.inc(oldest - this.#cursor - 1)
      this.#cursor = oldest - 1
    }
    const frame = this.#log.at(this.#cursor + 1)
    if (frame === null) return null
    this.#cursor = frame.seq
    const { seq, kind, payload, facts, sinceMs } = frame
    const bytes = payload.length + eventOverheadBytes
    return { feed: 'events', content: { seq, kind, payload, facts }, bytes, sinceMs, mark: seq }
  }

  waitingSinceMs(): number | null {
    const next = Math.max(this.#cursor + 1, this.#log.oldestSeq)
    return this.#log.at(next)?.sinceMs ?? null
  }
}

/** Most facts queued in memory; they cannot be replayed from a log. */
export const queueMax = 10_000
/** Approximate size of one fact. */
const factBytes = 400

type Queued<F> = Extract<Parcel, { readonly feed: F }>

export class QueueSource<F extends 'tips' | 'usage'> implements Source {
  readonly #feed: F
  readonly #lost: CounterChild
  #queue: Parcel[] = []
  #first = 0

  constructor(feed: F, lost: CounterChild) {
    this.#feed = feed
    this.#lost = lost
  }

  /** A fact beyond the bound is lost, and counted. */
  push(content: Queued<F>['content'], sinceMs: number): void {
    // Reason for the cast: the compiler does not join `feed` and `content` of the same F.
    const parcel = { feed: this.#feed, content, bytes: factBytes, sinceMs, mark: null } as Queued<F>
    if (this.#queue.length - this.#first >= queueMax) this.#lost.inc()
    else this.#queue.push(parcel)
  }

  next(): Parcel | null {
    const parcel = this.#queue[this.#first]
    if (parcel === undefined) return null
    this.#first++
    if (this.#first === this.#queue.length || this.#first >= queueMax) {
      this.#queue = this.#queue.slice(this.#first)
      this.#first = 0
    }
    return parcel
  }

  waitingSinceMs(): number | null {
    return this.#queue[this.#first]?.sinceMs ?? null
  }
}
