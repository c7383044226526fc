// State of one slot in the slot tracker: its parts, deferred statuses, statuses already published.
// Thread: main. Holds state only; slot-tracker.ts makes the decisions.
import type { BlockMetaUpdate, SlotStatus, SlotUpdate } from '../solana/updates.ts'
import { ReplayDedup, type SlotPart } from './replay-dedup.ts'

export class TrackedSlot {
  readonly slot: number
  parent: number | null = null
  /** Statuses that were published or are deferred, one bit each. */
  statuses = 0
  /** Number of the connection that its parts come from. */
  connection: number
  /** Number of the connection that last replayed the complete block. */
  checkedConnection = -1
  parts: SlotPart[] = []
  transactions = 0
  entries = 0
  /** Received, but not published until all parts of the block arrived. */
  meta: BlockMetaUpdate | null = null
  /** Parts published from earlier connections; null when there was none. */
  dedup: ReplayDedup | null = null
  /** Blockhash of the published block; null before. */
  blockhash: string | null = null
  /** Parts that another connection replays of a published block. */
  replayedParts: SlotPart[] = []
  /** Parts are missing and will never come. */
  isLost = false
  #deferred: SlotUpdate[] = []

  constructor(slot: number, connection: number) {
    this.slot = slot
    this.connection = connection
  }

  /** Something of it arrived, and its block was not published yet. */
  get isOpen(): boolean {
    if (this.blockhash !== null || this.isLost) return false
    return this.parts.length > 0 || this.meta !== null || this.dedup !== null
  }

  hasStatus(status: SlotStatus): boolean {
    return (this.statuses & statusBit(status)) !== 0
  }

  add(part: SlotPart): void {
    this.parts.push(part)
    if (part.kind === 'transaction') this.transactions++
    else if (part.kind === 'entry') this.entries++
  }

  /** Keeps a status back that must not be published before the block. */
  defer(update: SlotUpdate): void {
    this.statuses |= statusBit(update.status)
    this.#deferred.push(update)
  }

  takeDeferred(): readonly SlotUpdate[] {
    const deferred = this.#deferred
    this.#deferred = []
    return deferred
  }

  /** A new connection replays the slot from its start. */
  restart(connection: number): void {
    this.connection = connection
    this.dedup = new ReplayDedup(this.parts, this.dedup)
    this.#empty()
  }

  /** Discards the published block: another one replaces it. */
  reopen(connection: number): void {
    this.connection = connection
    this.blockhash = null
    this.dedup = null
    this.#empty()
  }

  close(meta: BlockMetaUpdate): void {
    this.blockhash = meta.blockhash
    this.dedup = null
    this.#empty()
  }

  #empty(): void {
    this.parts = []
    this.transactions = 0
    this.entries = 0
    this.meta = null
  }
}

export function statusBit(status: SlotStatus): number {
  return 1 << status
}

/** Whether every part of the block has arrived. */
export function isComplete(tracked: TrackedSlot, meta: BlockMetaUpdate): boolean {
  return (
    tracked.transactions >= meta.executedTransactionCount && tracked.entries >= meta.entriesCount
  )
}
