// Sends what the feeds give to the writer, within a window, and keeps it until it is durable.
// Thread: main. Woken by listeners of the logs; pulls the sources, so it never slows them.
//
//   sources --next()--> delivery --> writer --> answered: durable, forgotten here
//                          '-- kept (8 MiB) --> writer ended: sent again, in order
//
// While the window is full nothing is read, and the logs go on without us. A delivery that ends
// the writer, or that the sink rejects, is tried alone and then given up: one bad thing must not
// hold the rest for ever.
import type { Clock } from '../../../base/clock.ts'
import type { Delivery } from '../parcels.ts'
import type { Taken } from '../writer.ts'
import { Load } from './load.ts'
import type { Source } from './source.ts'

export const windowBytesMax = 8 * 1024 * 1024
/** One message, so that no turn of the main thread is long. A single parcel may be larger. */
export const deliveryBytesMax = 256 * 1024
/** Messages that wait for their answers. */
const deliveriesMax = 64
/** After a wake-up, for company. */
const gatherMs = 5
/** Times that a delivery may fail alone. */
export const triesMax = 3

/** A delivery on its way, and what to say when it has arrived. */
export interface Sending {
  readonly id: number
  readonly delivery: Delivery
  readonly bytes: number
  readonly sinceMs: number
  isSent: boolean
  /** True when nothing else was under way as it was sent. */
  isAlone: boolean
  /** How often it failed alone. */
  tries: number
}

export interface OutboxDeps {
  /** Rejects when the writer is gone; what was sent is then unknown. */
  deliver(delivery: Delivery): Promise<Taken>
  isOpen(): boolean
  onDurable(sending: Sending): void
  /** Sent again. */
  onAgain(sending: Sending): void
  /** Given up, with the reason. */
  onGivenUp(sending: Sending, reason: string): void
  readonly clock: Clock
}

export class Outbox {
  readonly #deps: OutboxDeps
  readonly #sources: readonly Source[]
  /** In order; those at the front are the oldest. */
  #unacked: Sending[] = []
  #bytes = 0
  #lastId = 0
  /** Up to this one they are sent one at a time; 0 in good times. */
  #aloneUntil = 0
  /** The writer ended with deliveries, and since then nothing has arrived. */
  #isSuspicious = false
  #hasFailed = false
  #timer: NodeJS.Timeout | null = null
  #immediate: NodeJS.Immediate | null = null
  #isStopped = false

  constructor(sources: readonly Source[], deps: OutboxDeps) {
    this.#sources = sources
    this.#deps = deps
  }

  get unackedBytes(): number {
    return this.#bytes
  }

  /** Nothing is under way, and the sources have nothing more. */
  get isEmpty(): boolean {
    return this.#unacked.length === 0 && this.#oldestWaiting() === Number.POSITIVE_INFINITY
  }

  /** Age of the oldest thing that is said and not durable; 0 when there is none. */
  lagMs(): number {
    const oldest = Math.min(this.#oldestWaiting(), ...this.#unacked.map((one) => one.sinceMs))
    return Math.max(0, this.#deps.clock.monotonicMs() - oldest)
  }

  /** There may be something to send. Cheap: called within the roads' own turns. */
  wake(): void {
    if (this.#timer !== null || this.#immediate !== null || this.#isStopped) return
    this.#timer = setTimeout(() => {
      this.#timer = null
      this.#pump()
    }, gatherMs)
  }

  /** A writer serves; perhaps another one than before. */
  writerOpened(): void {
    if (this.#hasFailed && this.#isSuspicious) this.#aloneUntil = this.#lastId
    this.#isSuspicious = this.#hasFailed
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

  /** One delivery a turn, and on while there is room. */
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

  /** Reads on, when there is room. */
  #more(): Sending | null {
    if (this.#bytes >= windowBytesMax || this.#unacked.length >= deliveriesMax) return null
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
        this.#failed(sending, 'the writer ended under it')
      },
    )
  }

  #answered(sending: Sending, taken: Taken): void {
    this.#isSuspicious = false
    if ('isWritten' in taken) {
      this.#forget(sending)
      this.#deps.onDurable(sending)
    } else {
      // It was written together with others: from here on each stands for itself.
      if (!sending.isAlone) this.#aloneUntil = this.#lastId
      this.#failed(sending, taken.rejected)
    }
    this.wake()
  }

  #failed(sending: Sending, reason: string): void {
    sending.isSent = false
    if (sending.isAlone) sending.tries++
    if (sending.tries < triesMax) this.#deps.onAgain(sending)
    else {
      this.#forget(sending)
      this.#deps.onGivenUp(sending, reason)
    }
  }

  #forget(sending: Sending): void {
    this.#unacked = this.#unacked.filter((one) => one !== sending)
    this.#bytes -= sending.bytes
  }

  /** Takes from each source in turn, so that a full one does not starve the others. */
  #gather(): Sending | null {
    const load = new Load()
    for (let isMore = true; isMore && load.bytes < deliveryBytesMax; ) {
      isMore = false
      for (const source of this.#sources) {
        const parcel = source.next()
        if (parcel === null) continue
        load.add(parcel)
        isMore = true
      }
    }
    if (load.bytes === 0) return null
    const { bytes, sinceMs } = load
    const delivery = load.take()
    const state = { isSent: false, isAlone: false, tries: 0 }
    return { id: ++this.#lastId, delivery, bytes, sinceMs, ...state }
  }
}
