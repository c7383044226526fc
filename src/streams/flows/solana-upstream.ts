// Publishes the updates in batches of upstream nodes' messages to the hub.
// Implements the GeyserSink port.
//
//   batch -> updates with the messages' own bytes -> slot-tracker: order, dedup -> hub

import type { Log } from '../../base/telemetry/log.ts'
import type { GeyserBatch } from '../../chain/solana/geyser-batch.ts'
import type { GeyserSink } from '../../upstream/ports.ts'
import type { SolanaHub } from '../geyser/hub.ts'
import { ReceivedBatch } from './received-batch.ts'
import { type SlotCounts, SlotTracker } from './slot-tracker.ts'

export interface UpstreamCounts extends SlotCounts {
  /** Malformed messages. */
  unreadable: number
}

/** What earlier starts of the server published and kept. */
export interface EarlierRuns {
  /** Where this one has to begin to continue them; null when there is nothing to continue. */
  readonly resumeSlot: number | null
  started(fromSlot: number | null): void
}

export interface SolanaUpstreamDeps {
  readonly log: Log
  readonly earlier?: EarlierRuns | null
  slotLimit?(): number
}

export class SolanaUpstream implements GeyserSink {
  readonly #tracker: SlotTracker
  readonly #log: Log
  readonly #earlier: EarlierRuns | null
  #unreadable = 0

  /** `slotLimit` is the highest slot that a node can have reached; infinite by default. */
  constructor(hub: SolanaHub, deps: SolanaUpstreamDeps) {
    this.#tracker = new SlotTracker(hub, deps.slotLimit)
    this.#log = deps.log
    this.#earlier = deps.earlier ?? null
  }

  resumeFrom(): number | null {
    return this.#tracker.resumeFrom() ?? this.#earlier?.resumeSlot ?? null
  }

  newestSlot(): number | null {
    return this.#tracker.newestSlot
  }

  opened(fromSlot: number | null): void {
    const resumeSlot = this.#tracker.resumeFrom()
    if (this.#tracker.newestSlot === null) this.#earlier?.started(fromSlot)
    this.#tracker.opened(fromSlot)
    if (resumeSlot === null || (fromSlot !== null && fromSlot <= resumeSlot)) return
    this.#log.warn('slots lost: no node could replay them', { resumeSlot, fromSlot })
  }

  beginAnew(): void {
    this.#log.warn('the chain begins anew: no node follows what was published', {
      slot: this.#tracker.newestSlot,
    })
    this.#tracker.beginAnew()
  }

  batch(received: GeyserBatch): boolean {
    const batch = new ReceivedBatch(received)
    const { droppedAbove } = this.#tracker
    for (let position = 0; position < batch.length; position++) {
      const update = batch.update(position)
      if (update === 'other') continue
      if (update === null) this.#unreadable++
      else if (update.kind === 'slot') this.#tracker.status(update)
      else if (update.kind === 'blockMeta') this.#tracker.meta(update)
      else this.#tracker.item(update)
    }
    return this.#tracker.droppedAbove === droppedAbove
  }

  counts(): UpstreamCounts {
    return { ...this.#tracker.counts, unreadable: this.#unreadable }
  }
}
