// State of one slot in the slot tracker: its items, deferred and published statuses.
// State only; slot-tracker.ts makes the decisions.
import { assert } from '../../base/assert.ts'
import type { BlockMetaUpdate, SlotStatus, SlotUpdate } from '../../chain/solana/updates.ts'
import { UpdateList } from '../hub/update-list.ts'
import { ReplayDedup, type SlotItem } from './replay-dedup.ts'

export class TrackedSlot {
  readonly slot: number
  parent: number | null = null
  /** Statuses that were published or are deferred, one bit each. */
  statuses = 0
  /** Number of the connection that its items come from. */
  connection: number
  /** Number of the connection that last replayed the complete block. */
  checkedConnection = -1
  items = new UpdateList<SlotItem>()
  transactions = 0
  entries = 0
  /** Received, but not published until all items of the block arrived. */
  meta: BlockMetaUpdate | null = null
  /** Items published from earlier connections; null when there was none. */
  dedup: ReplayDedup | null = null
  /** Blockhash of the published block; null before. */
  blockhash: string | null = null
  /** Items that another connection replays of a published block. */
  replayedItems: SlotItem[] = []
  /** Items are missing and will never come. */
  isLost = false
  #deferred: SlotUpdate[] = []

  constructor(slot: number, connection: number) {
    this.slot = slot
    this.connection = connection
  }

  /** Something of it arrived, and its block was not published yet. */
  get isOpen(): boolean {
    if (this.blockhash !== null || this.isLost) return false
    return this.items.length > 0 || this.meta !== null || this.dedup !== null
  }

  hasStatus(status: SlotStatus): boolean {
    return (this.statuses & statusBit(status)) !== 0
  }

  add(item: SlotItem): void {
    assert(item.slot === this.slot, 'an item is of this slot')
    this.items.push(item)
    if (item.kind === 'transaction') this.transactions++
    else if (item.kind === 'entry') this.entries++
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
    assert(connection > this.connection, 'connections are numbered upwards')
    this.connection = connection
    this.dedup = new ReplayDedup(this.items, this.dedup)
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
    this.items = new UpdateList()
    this.transactions = 0
    this.entries = 0
    this.meta = null
  }
}

export function statusBit(status: SlotStatus): number {
  return 1 << status
}

/** Whether every item of the block has arrived. */
export function isComplete(tracked: TrackedSlot, meta: BlockMetaUpdate): boolean {
  return (
    tracked.transactions >= meta.executedTransactionCount && tracked.entries >= meta.entriesCount
  )
}
