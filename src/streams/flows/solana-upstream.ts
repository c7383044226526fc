// Publishes the updates in batches of upstream nodes' messages to the hub.
// Implements the GeyserSink port.
//
//   batches of streams -> updates with the messages' own bytes -> slot-tracker: merge, order -> hub
import { hash, randomUUID } from 'node:crypto'
import type { Log } from '../../base/telemetry/log.ts'
import type { GeyserBatch } from '../../chain/solana/geyser-batch.ts'
import { ReceivedBatch, type ReceivedUpdate } from '../../chain/solana/received-batch.ts'
import { slotStatus } from '../../chain/solana/updates.ts'
import type { GeyserSink } from '../../upstream/ports.ts'
import type { SolanaHub } from '../geyser/hub.ts'
import type { SlotCounts } from './open-streams.ts'
import { bankIdsOfSlot, SlotTracker } from './slot-tracker.ts'

export interface UpstreamCounts extends SlotCounts {
  /** Malformed messages. */
  unreadable: number
}

/** What earlier starts of the server published and kept. */
export interface EarlierRuns {
  /** Where this one has to begin to continue them; null when there is nothing to continue. */
  readonly resumeSlot: number | null
  /** While nothing of the chain was published, and no other stream has a connection. */
  started(fromSlot: number | null): void
}

/** What the streams of a node have brought. */
export interface NodeArrivals {
  /** Accounts, transactions and entries that no other node had sent before. */
  first: number
  /** Slots that it confirmed with another blockhash than the one that was confirmed before. */
  disputed: number
}

export interface SolanaUpstreamDeps {
  readonly log: Log
  /** The highest slot that a node can have reached; infinite by default. */
  slotLimit?(): number
  /** A node confirmed a slot with another blockhash than the one that was confirmed before. */
  disputed?(node: string, slot: number, blockhash: string): void
  /**
   * Makes the bank ids; random by default, so that two hubs never give one id to two banks. Those
   * that read one stream have it in common, and name its banks alike.
   */
  readonly bankSalt?: string
  readonly earlier?: EarlierRuns | null
}

export class SolanaUpstream implements GeyserSink {
  readonly #tracker: SlotTracker
  readonly #deps: SolanaUpstreamDeps
  readonly #nodes = new Map<string, NodeArrivals>()
  /** The node of each stream, by its number. */
  readonly #streams: { readonly node: string; readonly arrivals: NodeArrivals }[] = []
  readonly #early: EarlyWrites[] = []
  /** Numbers of the streams that have a connection. */
  readonly #open = new Set<number>()
  #unreadable = 0
  /** The node whose batch is published now; null between batches. */
  sending: string | null = null

  constructor(hub: SolanaHub, deps: SolanaUpstreamDeps) {
    const { slotLimit, bankSalt = randomUUID() } = deps
    this.#deps = deps
    this.#tracker = new SlotTracker(hub, {
      ...(slotLimit === undefined ? {} : { slotLimit }),
      bankIds: (slot) => {
        const digest = hash('sha256', `${bankSalt} ${slot}`, 'buffer')
        return digest.readUIntBE(0, 6) * bankIdsOfSlot
      },
      arrived: (stream) => {
        const from = this.#streams[stream]
        if (from !== undefined) from.arrivals.first++
      },
      disputed: (...dispute) => this.#dispute(...dispute),
    })
  }

  resumeFrom(): number | null {
    return this.#tracker.resumeFrom() ?? this.#deps.earlier?.resumeSlot ?? null
  }

  newestSlot(): number | null {
    return this.#tracker.newestSlot
  }

  opened(fromSlot: number | null, stream = 0, node = ''): void {
    const arrivals = this.#nodes.get(node) ?? { first: 0, disputed: 0 }
    this.#nodes.set(node, arrivals)
    this.#streams[stream] = { node, arrivals }
    this.#early[stream] = this.#earlyOf(stream)
    const resumeSlot = this.#tracker.resumeFrom()
    // Also after connections that brought nothing: this one may begin elsewhere.
    if (resumeSlot === null && this.#open.size === 0) this.#deps.earlier?.started(fromSlot)
    this.#open.add(stream)
    const { gapSlots } = this.#tracker.counts
    this.#tracker.opened(fromSlot, stream)
    if (this.#tracker.counts.gapSlots > gapSlots || this.#tracker.isGapOpen)
      this.#deps.log.warn('slots lost: no node could replay them', { resumeSlot, fromSlot })
  }

  closed(stream = 0): void {
    this.#open.delete(stream)
    this.#tracker.closed(stream)
  }

  beginAnew(): void {
    this.#deps.log.warn('the chain begins anew: no node follows what was published', {
      slot: this.#tracker.newestSlot,
    })
    this.#tracker.beginAnew()
    this.#early.length = 0
  }

  #earlyOf(stream: number): EarlyWrites {
    return new EarlyWrites((update) => {
      if (update.kind === 'slot') this.#tracker.status(update, stream)
      else if (update.kind === 'blockMeta') this.#tracker.meta(update, stream)
      else this.#tracker.item(update, stream)
    })
  }

  batch(received: GeyserBatch, stream = 0): boolean {
    const batch = new ReceivedBatch(received)
    const { droppedAbove } = this.#tracker
    this.sending = this.#streams[stream]?.node ?? null
    const early = this.#early[stream] ?? this.#earlyOf(stream)
    this.#early[stream] = early
    for (let position = 0; position < batch.length; position++) {
      const update = batch.update(position)
      if (update === 'other') continue
      if (update === null) this.#unreadable++
      else early.take(update)
    }
    this.#tracker.settle()
    this.sending = null
    return this.#tracker.droppedAbove === droppedAbove
  }

  /** By the names of the nodes that had a stream. */
  arrivals(): ReadonlyMap<string, Readonly<NodeArrivals>> {
    return this.#nodes
  }

  counts(): UpstreamCounts {
    return { ...this.#tracker.counts, unreadable: this.#unreadable }
  }

  #dispute(stream: number, slot: number, blockhash: string): void {
    const from = this.#streams[stream]
    if (from === undefined) return
    from.arrivals.disputed++
    this.#deps.log.warn('a node confirmed another block than its set', { node: from.node, slot })
    this.#deps.disputed?.(from.node, slot, blockhash)
  }
}

/** A bank is created with about ten; a node that sends more tells no creation after them. */
const heldMax = 64

/**
 * What a node writes with the creation of a bank (sysvars) may precede the message that tells it.
 * A bank is told before its content, as what a slot had before is void: those writes wait for the
 * next message of the slot, and follow it where that is the creation. Of one connection.
 */
class EarlyWrites {
  readonly #take: (update: ReceivedUpdate) => void
  /** The newest slot that has begun. */
  #slot = -1
  /** Its writes that wait; null once it has more. */
  #held: ReceivedUpdate[] | null = null

  constructor(take: (update: ReceivedUpdate) => void) {
    this.#take = take
  }

  take(update: ReceivedUpdate): void {
    const { slot } = update
    if (slot > this.#slot && !isOfShreds(update)) {
      this.#release()
      this.#slot = slot
      this.#held = []
    }
    if (this.#held === null || slot !== this.#slot || isOfShreds(update)) this.#take(update)
    else if (update.kind === 'account' && update.txnSignature === null) {
      this.#held.push(update)
      if (this.#held.length > heldMax) this.#release()
    } else if (update.kind === 'slot' && update.status === slotStatus.createdBank) {
      this.#take(update)
      this.#release()
    } else {
      this.#release()
      this.#take(update)
    }
  }

  #release(): void {
    const held = this.#held ?? []
    this.#held = null
    for (const update of held) this.#take(update)
  }
}

/** They say nothing of a bank. */
function isOfShreds(update: ReceivedUpdate): boolean {
  if (update.kind !== 'slot') return false
  const { firstShredReceived, completed } = slotStatus
  return update.status === firstShredReceived || update.status === completed
}
