// Parses the messages of upstream nodes and publishes their updates to the hub. Thread: main.
// Implements the GeyserSink port.
//
//   message -> envelope -> update with the message's own bytes -> slot-tracker: order, dedup -> hub
import type { Clock } from '../base/clock.ts'
import type { SolanaHub } from '../geyser/hub.ts'
import type { Log } from '../telemetry/log.ts'
import type { GeyserSink } from '../upstream/ports.ts'
import { type SlotCounts, SlotTracker } from './slot-tracker.ts'
import { receiveUpdate } from './solana-received.ts'

export interface UpstreamCounts extends SlotCounts {
  /** Malformed messages. */
  unreadable: number
}

export class SolanaUpstream implements GeyserSink {
  readonly #tracker: SlotTracker
  readonly #clock: Clock
  readonly #log: Log
  #unreadable = 0

  constructor(hub: SolanaHub, deps: { readonly clock: Clock; readonly log: Log }) {
    this.#tracker = new SlotTracker(hub)
    this.#clock = deps.clock
    this.#log = deps.log
  }

  resumeFrom(): number | null {
    return this.#tracker.resumeFrom()
  }

  newestSlot(): number | null {
    return this.#tracker.newestSlot
  }

  opened(fromSlot: number | null): void {
    const resumeSlot = this.#tracker.resumeFrom()
    this.#tracker.opened(fromSlot)
    if (resumeSlot === null || (fromSlot !== null && fromSlot <= resumeSlot)) return
    this.#log.warn('slots lost: no node could replay them', { resumeSlot, fromSlot })
  }

  message(bytes: Uint8Array): void {
    const update = receiveUpdate(bytes, this.#clock.nowMs())
    if (update === 'other') return
    if (update === null) this.#unreadable++
    else if (update.kind === 'slot') this.#tracker.status(update)
    else if (update.kind === 'blockMeta') this.#tracker.meta(update)
    else this.#tracker.item(update)
  }

  counts(): UpstreamCounts {
    return { ...this.#tracker.counts, unreadable: this.#unreadable }
  }
}
