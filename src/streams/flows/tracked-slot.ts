// One slot as the tracker knows it: its banks, the items of the last one, and which of them are the
// block's. The tracker decides; nothing here publishes.
import { hash } from 'node:crypto'
import { assert } from '../../base/assert.ts'
import { ProtoReader } from '../../base/proto-reader.ts'
import { keyOf } from '../../chain/solana/keys.ts'
import {
  type AccountUpdate,
  type BlockMetaUpdate,
  type BlockUpdate,
  type EntryUpdate,
  type RetractionReason,
  type SlotStatus,
  type SlotUpdate,
  slotStatus,
  type TransactionUpdate,
} from '../../chain/solana/updates.ts'
import { UpdateList } from '../hub/update-list.ts'

/** The kinds of updates that make up a slot. */
export type SlotItem = AccountUpdate | TransactionUpdate | EntryUpdate

/** Replaced banks remembered of a slot; an honest leader has one or two. */
const banksMax = 8

/** A block that may contain items of the bank that was replaced, instead of some that are late. */
export interface ProvisionalBlock {
  readonly meta: BlockMetaUpdate
  /** Transactions and entries as this connection sent them, and the accounts of the block. */
  received: UpdateList<SlotItem>
  connection: number
  dedup: ReplayDedup | null
}

/** State of one slot: its items, deferred and published statuses. The tracker decides. */
export class TrackedSlot {
  readonly slot: number
  parent: number | null = null
  /** Number of its bank among those of the slot, from 1: each retraction ends one. */
  bank = 1
  /** Something of the bank was published. */
  hasPublished = false
  /** Why the bank before was retracted. */
  retractedFor: RetractionReason | null = null
  /** The chain was set back below it: its bank is gone, though no message says so. */
  isSetBack = false
  /** Statuses that were published or are deferred, one bit each. */
  statuses = 0
  /** Number of the connection that first sent something of it. */
  readonly firstConnection: number
  /** Number of the connection that its items come from. */
  connection: number
  items = new UpdateList<SlotItem>()
  transactions = 0
  entries = 0
  /** Received, but not published until all items of the block arrived. */
  meta: BlockMetaUpdate | null = null
  /** Items published from earlier connections; null when there was none. */
  dedup: ReplayDedup | null = null
  /** Blockhash of the published block; null before. */
  blockhash: string | null = null
  /** Items are missing and will never come. */
  isLost = false
  /** The block was published with all its items. */
  isComplete = false
  /** Of a complete block after a replaced bank, until it is confirmed. */
  provisional: ProvisionalBlock | null = null
  /** Parents of the banks that were replaced, oldest first; null where a node left it out. */
  readonly #replaced: (number | null)[] = []
  #bankParent: number | null = null
  /** Number of the connection that last created a bank; -1 before the first. */
  #bankConnection = -1
  /** Number of the connection that now replays a bank which was replaced; -1 when none does. */
  #voidConnection = -1
  #deferred: SlotUpdate[] = []
  /** Items of the last connection since the block was complete, or since it sent the meta. */
  #after: SlotItem[] = []
  #afterConnection = -1

  constructor(slot: number, connection: number) {
    this.slot = slot
    this.firstConnection = connection
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

  /** Keeps an item that came after the complete block: another block may be made of them. */
  addAfter(item: SlotItem, connection: number): void {
    if (connection !== this.#afterConnection) this.#after = []
    this.#afterConnection = connection
    this.#after.push(item)
  }

  takeAfter(): readonly SlotItem[] {
    const items = this.#after
    this.#after = []
    return items
  }

  get hasReplacedBank(): boolean {
    return this.#replaced.length > 0
  }

  /** Whether what this connection sends now is of a bank that was replaced. */
  isVoid(connection: number): boolean {
    return this.#voidConnection === connection
  }

  /**
   * Which bank a connection has created: another connection replays those that are known by their
   * parents; what it creates after them, or over another parent, is the next one. The bank of a
   * confirmed slot is never replaced: another one is void.
   */
  bankOf(
    parent: number | null,
    connection: number,
    isConfirmed: boolean,
  ): 'first' | 'known' | 'next' {
    const isReplay = this.#bankConnection !== connection || this.isVoid(connection)
    const isFirst = this.#bankConnection === -1
    const isSame = isReplay && parent === this.#bankParent
    const isReplaced = isReplay && !isSame && this.#replaced.includes(parent)
    this.#bankConnection = connection
    const isVoid = !isFirst && (isReplaced || (isConfirmed && !isSame))
    this.#voidConnection = isVoid ? connection : -1
    if (isFirst) {
      this.#bankParent = parent
      return 'first'
    }
    if (isSame || isVoid) return 'known'
    // Nothing was received of the bank before: the same message twice.
    if (parent === this.#bankParent && this.#isUntouched) return 'known'
    this.#replaced.push(this.#bankParent)
    this.#bankParent = parent
    if (this.#replaced.length > banksMax) this.#replaced.shift()
    return 'next'
  }

  /** Discards what was received and published of the bank before. */
  replaceBank(connection: number): void {
    this.reopen(connection)
    this.isLost = false
    this.#deferred = []
    this.statuses &= ~bankStatuses
  }

  /** The bank is void: what follows is of the next one. */
  retract(reason: RetractionReason): void {
    this.bank++
    this.retractedFor = reason
    this.isSetBack = false
  }

  get #isUntouched(): boolean {
    const isClosed = this.blockhash !== null || this.isLost
    return !isClosed && this.items.length === 0 && this.meta === null
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
    this.isComplete = false
    this.provisional = null
    this.#after = []
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

/** The statuses of a bank; the others are of the slot's shreds. */
export const bankStatuses =
  statusBit(slotStatus.processed) | statusBit(slotStatus.createdBank) | statusBit(slotStatus.dead)

/** All items of the block; null while some are missing. */
export function itemsOf(tracked: TrackedSlot, meta: BlockMetaUpdate): UpdateList<SlotItem> | null {
  const transactions = tracked.transactions - meta.executedTransactionCount
  const entries = tracked.entries - meta.entriesCount
  if (transactions < 0 || entries < 0) return null
  const isExact = transactions === 0 && entries === 0 && !tracked.hasReplacedBank
  return isExact ? tracked.items : lastItems(tracked.items, meta)
}

/**
 * The block's items among those of several banks; null while some are missing. Transactions and
 * entries of a bank that was replaced may come after CREATED_BANK of the next one: a node has a
 * queue for each kind, so they precede the block's own, which have every index once.
 */
export function lastItems(
  received: UpdateList<SlotItem>,
  meta: BlockMetaUpdate,
): UpdateList<SlotItem> | null {
  const excess = {
    account: 0,
    transaction: -meta.executedTransactionCount,
    entry: -meta.entriesCount,
  }
  for (const { kind } of received) if (kind !== 'account') excess[kind]++
  const items = new UpdateList<SlotItem>()
  const indexes = { transaction: new Set<number>(), entry: new Set<number>() }
  for (const item of received) {
    if (excess[item.kind]-- > 0) continue
    items.push(item)
    if (item.kind !== 'account') indexes[item.kind].add(item.index)
  }
  const areAllThere = isWhole(indexes.transaction, meta.executedTransactionCount)
  return areAllThere && isWhole(indexes.entry, meta.entriesCount) ? items : null
}

/** Whether they are the numbers from 0 up to the count. */
function isWhole(indexes: ReadonlySet<number>, count: number): boolean {
  return indexes.size === count && (count === 0 || Math.max(...indexes) === count - 1)
}

/** Deduplicates the items of an incomplete slot that a node replays after a reconnect. */
export class ReplayDedup {
  readonly #left: Map<string, number>

  /** `earlier` has the items of previous connections that the last one did not replay. */
  constructor(items: Iterable<SlotItem>, earlier: ReplayDedup | null) {
    this.#left = earlier === null ? new Map() : new Map(earlier.#left)
    for (const item of items) {
      const name = nameOf(item)
      this.#left.set(name, (this.#left.get(name) ?? 0) + 1)
    }
  }

  /** Every published item was replayed: what was published is what this connection sends. */
  get isDone(): boolean {
    return this.#left.size === 0
  }

  /** True for a duplicate of a published item; each published item matches once. */
  consume(item: SlotItem): boolean {
    const name = nameOf(item)
    const left = this.#left.get(name) ?? 0
    if (left === 0) return false
    if (left === 1) this.#left.delete(name)
    else this.#left.set(name, left - 1)
    return true
  }
}

/**
 * Dedup key: the same on every node that has the same block. The replay may come from another node,
 * so values that each node assigns itself (write versions, times) are excluded.
 */
function nameOf(item: SlotItem): string {
  switch (item.kind) {
    case 'transaction':
      return `t${keyOf(item.signature)}`
    case 'entry':
      return `e${entryNameOf(item.body)}`
    case 'account': {
      const { pubkey, txnSignature, data, lamports } = item
      // A transaction writes an account once; other writes are identified by their content.
      const by = txnSignature === null ? `${lamports} ${hash('sha1', data)}` : keyOf(txnSignature)
      return `a${keyOf(pubkey)}${by}`
    }
  }
}

/** Index, hash and count: the bank's id in the same message is a number of the node's. */
function entryNameOf(body: Uint8Array): string {
  let [index, count, hashKey] = [0, 0, '']
  const reader = new ProtoReader(body)
  while (reader.next())
    if (reader.field === 2) index = reader.number
    else if (reader.field === 4) hashKey = keyOf(reader.bytes)
    else if (reader.field === 5) count = reader.number
  return `${index} ${count} ${hashKey}`
}

/** The lists are built on first access: they cost nothing unless a subscriber reads blocks. */
export class AssembledBlock implements BlockUpdate {
  readonly kind = 'block'
  readonly slot: number
  readonly createdAtMs: number
  readonly meta: BlockMetaUpdate
  readonly isMixed: boolean
  readonly #items: UpdateList<SlotItem>
  #transactions: readonly TransactionUpdate[] | null = null
  #accounts: readonly AccountUpdate[] | null = null

  /** `items` are all those of the slot, in the order of arrival. */
  constructor(meta: BlockMetaUpdate, items: UpdateList<SlotItem>, isMixed: boolean) {
    this.slot = meta.slot
    this.createdAtMs = meta.createdAtMs
    this.meta = meta
    this.isMixed = isMixed
    this.#items = items
  }

  /** All of them, in the order of arrival. */
  get items(): UpdateList<SlotItem> {
    return this.#items
  }

  /** Sorted by index in the block: nodes send them in the order their threads finish. */
  get transactions(): readonly TransactionUpdate[] {
    if (this.#transactions === null) {
      const found = [...this.#items].filter((item) => item.kind === 'transaction')
      this.#transactions = isAscending(found) ? found : found.sort((a, b) => a.index - b.index)
    }
    return this.#transactions
  }

  /** The last write of each account; a block contains only that one. */
  get accounts(): readonly AccountUpdate[] {
    if (this.#accounts === null) {
      const last = new Map<string, AccountUpdate>()
      for (const item of this.#items)
        if (item.kind === 'account') last.set(keyOf(item.pubkey), item)
      this.#accounts = [...last.values()]
    }
    return this.#accounts
  }

  get entries(): readonly EntryUpdate[] {
    return [...this.#items].filter((item) => item.kind === 'entry')
  }
}

function isAscending(transactions: readonly TransactionUpdate[]): boolean {
  return transactions.every((one, at) => at === 0 || transactions[at - 1]!.index < one.index)
}
