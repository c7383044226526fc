// Publishes the updates in batches of upstream nodes' messages to the hub.
// Implements the GeyserSink port.
//
//   batch -> updates with the messages' own bytes -> slot-tracker: order, dedup -> hub
import type { SolanaHub } from '../geyser/hub.ts'
import type { GeyserBatch } from '../solana/geyser-batch.ts'
import type { Log } from '../telemetry/log.ts'
import type { GeyserSink } from '../upstream/ports.ts'
import { ReceivedBatch } from './received-batch.ts'
import { type SlotCounts, SlotTracker } from './slot-tracker.ts'

export interface UpstreamCounts extends SlotCounts {
  /** Malformed messages. */
  unreadable: number
}

export class SolanaUpstream implements GeyserSink {
  readonly #tracker: SlotTracker
  readonly #log: Log
  #unreadable = 0

  constructor(hub: SolanaHub, deps: { readonly log: Log }) {
    this.#tracker = new SlotTracker(hub)
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

  batch(received: GeyserBatch): void {
    const batch = new ReceivedBatch(received)
    for (let position = 0; position < batch.length; position++) {
      const update = batch.update(position)
      if (update === 'other') continue
      if (update === null) this.#unreadable++
      else if (update.kind === 'slot') this.#tracker.status(update)
      else if (update.kind === 'blockMeta') this.#tracker.meta(update)
      else this.#tracker.item(update)
    }
  }

  counts(): UpstreamCounts {
    return { ...this.#tracker.counts, unreadable: this.#unreadable }
  }
}
