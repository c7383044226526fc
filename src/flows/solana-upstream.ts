// The nodes' side of the Solana road: takes their messages apart and publishes them. Thread: main.
// Called by upstream/geyser/geyser-feed.ts through the GeyserSink port.
//
//   message -> envelope -> update with the message's own bytes -> slot-book: order, once -> hub
import type { Clock } from '../base/clock.ts'
import type { SolanaHub } from '../geyser/hub.ts'
import type { Log } from '../telemetry/log.ts'
import type { GeyserSink } from '../upstream/ports.ts'
import { SlotBook, type SlotCounts } from './slot-book.ts'
import { receiveUpdate } from './solana-received.ts'

export interface UpstreamCounts extends SlotCounts {
  /** Messages that are no updates. */
  unreadable: number
}

export class SolanaUpstream implements GeyserSink {
  readonly #book: SlotBook
  readonly #clock: Clock
  readonly #log: Log
  #unreadable = 0

  constructor(hub: SolanaHub, deps: { readonly clock: Clock; readonly log: Log }) {
    this.#book = new SlotBook(hub)
    this.#clock = deps.clock
    this.#log = deps.log
  }

  resumeFrom(): number | null {
    return this.#book.resumeFrom()
  }

  newestSlot(): number | null {
    return this.#book.newestSlot
  }

  opened(fromSlot: number | null): void {
    const wantedSlot = this.#book.resumeFrom()
    this.#book.opened(fromSlot)
    if (wantedSlot === null || (fromSlot !== null && fromSlot <= wantedSlot)) return
    this.#log.warn('slots are missing: no node could tell them again', { wantedSlot, fromSlot })
  }

  message(bytes: Uint8Array): void {
    const update = receiveUpdate(bytes, this.#clock.nowMs())
    if (update === 'other') return
    if (update === null) this.#unreadable++
    else if (update.kind === 'slot') this.#book.status(update)
    else if (update.kind === 'blockMeta') this.#book.meta(update)
    else this.#book.part(update)
  }

  counts(): UpstreamCounts {
    return { ...this.#book.counts, unreadable: this.#unreadable }
  }
}
