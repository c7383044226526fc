// Sends the sources' parcels to the writer process and retries them until they are durable.
// Woken by listeners of the logs; pulls the sources, so it never slows them.
//
//   sources --next()--> delivery --> writer --> acknowledged: durable, removed here
//                          '-- kept (8 MiB) --> writer ended: retried, in order
//
// Backpressure: while the window of unacknowledged deliveries is full, no source is read, and the
// logs may evict what was not read. A delivery that crashes the writer, or that the sink rejects,
// is retried alone and then dropped: one bad delivery must not block the rest forever.
import type { Clock } from '../../base/clock.ts'
import { unackedBytesMax } from '../config.ts'
import type { Delivery, Parcel } from '../parcels.ts'
import type { FeedName } from '../tables.ts'
import type { Taken } from '../writer.ts'
import type { Source } from './source.ts'

/** Size of one message, to keep event-loop turns short. A single parcel may be larger. */
const deliveryBytesMax = 256 * 1024
/** Most unacknowledged deliveries: those of the longest usual wait for an insert. */
const deliveriesMax = 512
/** Batching delay after a wake-up. */
const gatherMs = 5
/** A delivery is dropped after failing alone this many times. */
export const triesMax = 3

/** An unacknowledged delivery. */
export interface Sending {
  readonly id: number
  readonly delivery: Delivery
  readonly bytes: number
  readonly sinceMs: number
  isSent: boolean
  /** True when it was sent while nothing else was in flight. */
  isAlone: boolean
  /** Number of failures while sent alone. */
  tries: number
}

export interface OutboxDeps {
  /** Rejects when the writer is gone; whether the delivery was written is then unknown. */
  deliver(delivery: Delivery): Promise<Taken>
  isOpen(): boolean
  onDurable(sending: Sending): void
  /** The delivery failed and will be retried. */
  onRetry(sending: Sending): void
  /** The delivery was dropped after its last retry. */
  onDropped(sending: Sending, reason: string): void
  readonly clock: Clock
}

export class Outbox {
  readonly #deps: OutboxDeps
  readonly #sources: Source[]
  /** Oldest first. */
  #unacked: Sending[] = []
  #bytes = 0
  #lastId = 0
  /** Deliveries up to this id are sent one at a time; 0 in normal operation. */
  #aloneUntil = 0
  /** The writer ended with deliveries in flight, and none was acknowledged since. */
  #isSuspect = false
  #hasFailed = false
  #timer: NodeJS.Timeout | null = null
  #immediate: NodeJS.Immediate | null = null
  #isStopped = false

  constructor(sources: readonly Source[], deps: OutboxDeps) {
    this.#sources = [...sources]
    this.#deps = deps
  }

  add(source: Source): void {
    this.#sources.push(source)
    this.wake()
  }

  get unackedBytes(): number {
    return this.#bytes
  }

  /** Nothing is unacknowledged, and the sources have nothing more. */
  get isEmpty(): boolean {
    return this.#unacked.length === 0 && this.#oldestWaiting() === Number.POSITIVE_INFINITY
  }

  /** Age of the oldest update that is not yet durable; 0 when all are. */
  lagMs(): number {
    const oldest = Math.min(this.#oldestWaiting(), ...this.#unacked.map((one) => one.sinceMs))
    return Math.max(0, this.#deps.clock.monotonicMs() - oldest)
  }

  /** Schedules a send. Cheap, because the pipelines call it within their own turns. */
  wake(): void {
    if (this.#timer !== null || this.#immediate !== null || this.#isStopped) return
    this.#timer = setTimeout(() => {
      this.#timer = null
      this.#pump()
    }, gatherMs)
  }

  /** A writer is ready; perhaps a restarted one. */
  writerOpened(): void {
    if (this.#hasFailed && this.#isSuspect) this.#aloneUntil = this.#lastId
    this.#isSuspect = this.#hasFailed
    this.#hasFailed = false
    this.wake()
  }

  stop(): void {
    this.#isStopped = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    if (this.#immediate !== null) clearImmediate(this.#immediate)
  }

  #oldestWaiting(): number {
    return Math.min(
      ...this.#sources.map((source) => source.waitingSinceMs() ?? Number.POSITIVE_INFINITY),
    )
  }

  /** Sends one delivery per event-loop turn while the window has space. */
  #pump(): void {
    if (this.#isStopped || !this.#deps.isOpen()) return
    const next = this.#unacked.find((one) => !one.isSent) ?? this.#more()
    if (next === null) return
    const isAlone = next.id <= this.#aloneUntil
    const inFlight = this.#unacked.filter((one) => one.isSent)
    if (inFlight.some((one) => isAlone || one.isAlone)) return
    this.#send(next, isAlone)
    this.#immediate = setImmediate(() => {
      this.#immediate = null
      this.#pump()
    })
  }

  /** Gathers the next delivery from the sources; null when the window is full. */
  #more(): Sending | null {
    if (this.#bytes >= unackedBytesMax || this.#unacked.length >= deliveriesMax) return null
    const gathered = this.#gather()
    if (gathered === null) return null
    this.#unacked.push(gathered)
    this.#bytes += gathered.bytes
    return gathered
  }

  #send(sending: Sending, isAlone: boolean): void {
    sending.isSent = true
    sending.isAlone = isAlone
    this.#deps.deliver(sending.delivery).then(
      (taken) => this.#answered(sending, taken),
      () => {
        this.#hasFailed = true
        this.#failed(sending, 'the index writer ended before it acknowledged the delivery')
      },
    )
  }

  #answered(sending: Sending, taken: Taken): void {
    this.#isSuspect = false
    if ('isWritten' in taken) {
      this.#forget(sending)
      this.#deps.onDurable(sending)
    } else {
      // It was written together with others: from here on each is sent alone.
      if (!sending.isAlone) this.#aloneUntil = this.#lastId
      this.#failed(sending, taken.rejected)
    }
    this.wake()
  }

  #failed(sending: Sending, reason: string): void {
    sending.isSent = false
    if (sending.isAlone) sending.tries++
    if (sending.tries < triesMax) this.#deps.onRetry(sending)
    else {
      this.#forget(sending)
      this.#deps.onDropped(sending, reason)
    }
  }

  #forget(sending: Sending): void {
    this.#unacked = this.#unacked.filter((one) => one !== sending)
    this.#bytes -= sending.bytes
  }

  /** Round-robin over the sources, so that a full one does not starve the others. */
  #gather(): Sending | null {
    const parcels: Parcel[] = []
    const marks: Partial<Record<FeedName, number>> = {}
    let bytes = 0
    let sinceMs = Number.POSITIVE_INFINITY
    for (let isMore = true; isMore && bytes < deliveryBytesMax; ) {
      isMore = false
      for (const source of this.#sources) {
        const parcel = source.next()
        if (parcel === null) continue
        isMore = true
        parcels.push(parcel)
        bytes += parcel.bytes
        sinceMs = Math.min(sinceMs, parcel.sinceMs)
        if (parcel.mark !== null) marks[parcel.feed] = parcel.mark
      }
    }
    if (parcels.length === 0) return null
    const state = { isSent: false, isAlone: false, tries: 0 }
    return { id: ++this.#lastId, delivery: { parcels, marks }, bytes, sinceMs, ...state }
  }
}
