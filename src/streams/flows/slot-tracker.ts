// Orders and deduplicates the updates of a node and publishes them to the hub, across reconnects.
// The order is the one that solana/updates.ts states; each update is published once.
//
//   items ────────────────────────► hub          after a reconnect the node replays incomplete
//   meta ──► waits until all items               slots from their start: duplicate items are
//            of its block are there              dropped, and confirmed and finalized get the
//            ─► block, meta ──────► hub          slot as the last connection sent it
//   processed ─► waits for the block ► hub
//   confirmed, finalized ─► also for every ancestor without that status ► hub
//
// Nodes send a status for some slots only (a confirmation skips ancestors, a restart forgets them);
// the others are derived from the chain of parents. A slot below a finalized one that is not its
// ancestor was a fork.
//
// A slot may have several banks: a leader that takes over early changes its parent (UpdateParent),
// a dead slot is repaired, another version of the block is certified. Only the next CREATED_BANK
// tells it. The bank before is void: confirmed and finalized never get what only that one has.
//
//   CREATED_BANK (parent 7) ─ items ─ CREATED_BANK (parent 5) ─ items, meta ─► block of parent 5
//                             void    └ late items of the first bank precede those of the second
import { hash } from 'node:crypto'
import { assert } from '../../base/assert.ts'
import { ProtoReader } from '../../base/proto-reader.ts'
import { keyOf } from '../../chain/solana/keys.ts'
import { slotUpdate } from '../../chain/solana/update-build.ts'
import {
  type AccountUpdate,
  type BlockMetaUpdate,
  type BlockUpdate,
  type EntryUpdate,
  type SlotStatus,
  type SlotUpdate,
  slotStatus,
  type TransactionUpdate,
} from '../../chain/solana/updates.ts'
import { publishUpdate, type SolanaHub } from '../geyser/hub.ts'
import { UpdateList } from '../hub/update-list.ts'

/** Slots remembered below the newest finalized one: a replay may contain them. */
const keptSlots = 64
/** Slots remembered when nothing is ever finalized; the oldest entry is evicted. */
const slotsMax = 2_048
/** Replaced banks remembered of a slot; an honest leader has one or two. */
const banksMax = 8

/** The kinds of updates that make up a slot. */
type SlotItem = AccountUpdate | TransactionUpdate | EntryUpdate

export interface SlotCounts {
  /** Updates dropped because they were published before. */
  duplicates: number
  /** Slots that no node could replay after a reconnect. */
  gapSlots: number
  /** Blocks published without some of their items. */
  incompleteBlocks: number
  /** Blocks that a node replayed with another blockhash after a reconnect. */
  rewrittenBlocks: number
  /** Banks that a node replaced by another one of the same slot. */
  replacedBanks: number
  /** How often the chain began anew. */
  restarts: number
}

export class SlotTracker {
  readonly counts: SlotCounts = {
    duplicates: 0,
    gapSlots: 0,
    incompleteBlocks: 0,
    rewrittenBlocks: 0,
    replacedBanks: 0,
    restarts: 0,
  }
  /** Updates of slots above the limit, which were dropped. */
  droppedAbove = 0
  readonly #hub: SolanaHub
  readonly #slotLimit: () => number
  readonly #slots = new Map<number, TrackedSlot>()
  /** Number of the current connection; each reconnect increments it. */
  #connection = 0
  #floor = 0
  #newest: number | null = null
  #newestComplete: number | null = null
  /** The requested resume slot that was not replayed, until the new connection's first slot. */
  #gapFrom: number | null = null

  /** `slotLimit` is the highest slot that a node can have reached; those above are dropped. */
  constructor(hub: SolanaHub, slotLimit: () => number = () => Number.POSITIVE_INFINITY) {
    this.#hub = hub
    this.#slotLimit = slotLimit
  }

  get newestSlot(): number | null {
    return this.#newest
  }

  /** The first slot that is not complete; the newest complete one when all are. */
  resumeFrom(): number | null {
    let lowest: number | null = null
    for (const tracked of this.#slots.values())
      if (tracked.isOpen || tracked.provisional !== null)
        if (lowest === null || tracked.slot < lowest) lowest = tracked.slot
    return lowest ?? this.#newestComplete
  }

  /** A new connection begins, at `fromSlot`; null = live updates only, without a replay. */
  opened(fromSlot: number | null): void {
    const expected = this.resumeFrom()
    this.#connection++
    this.#gapFrom = fromSlot === null ? expected : null
    if (expected !== null && fromSlot !== null && fromSlot > expected)
      this.counts.gapSlots += fromSlot - expected
    for (const tracked of this.#slots.values()) {
      if (!tracked.isOpen || (fromSlot !== null && tracked.slot >= fromSlot)) continue
      // Its missing items will never come; items that still arrive are not duplicates.
      tracked.connection = this.#connection
      tracked.isLost = true
      this.#giveUp(tracked)
    }
  }

  /** Nothing that was published says anything about what follows. */
  beginAnew(): void {
    this.counts.restarts++
    this.#slots.clear()
    this.#floor = 0
    this.#newest = null
    this.#newestComplete = null
    this.#gapFrom = null
    this.#hub.restart()
  }

  item(update: SlotItem): void {
    const tracked = this.#track(update.slot)
    if (tracked === null) return
    if (tracked.isVoid(this.#connection)) {
      this.counts.duplicates++
      return
    }
    if (tracked.blockhash !== null) {
      this.#itemAfter(tracked, update)
      return
    }
    if (tracked.connection !== this.#connection) tracked.restart(this.#connection)
    tracked.add(update)
    if (tracked.dedup?.consume(update) === true) this.counts.duplicates++
    else this.#hub.content(update)
    if (tracked.meta !== null) this.#tryComplete(tracked)
  }

  meta(update: BlockMetaUpdate): void {
    const tracked = this.#track(update.slot)
    if (tracked === null) return
    if (tracked.isVoid(this.#connection)) {
      this.counts.duplicates++
      return
    }
    tracked.parent = update.parentSlot
    if (tracked.blockhash !== null) {
      this.#metaAfter(tracked, update)
      return
    }
    if (tracked.connection !== this.#connection) tracked.restart(this.#connection)
    tracked.meta = update
    this.#tryComplete(tracked)
    // Too late to wait for missing items.
    if (tracked.blockhash === null && (tracked.isLost || tracked.hasStatus(slotStatus.confirmed)))
      this.#giveUp(tracked)
  }

  status(update: SlotUpdate): void {
    const tracked = this.#track(update.slot)
    if (tracked === null) return
    const { status, parent } = update
    if (status === slotStatus.createdBank) {
      this.#createBank(tracked, update)
      return
    }
    if (parent !== null && !tracked.isVoid(this.#connection)) tracked.parent = parent
    const isOfVoid = tracked.isVoid(this.#connection) && (statusBit(status) & bankStatuses) !== 0
    if (tracked.hasStatus(status) || isOfVoid) this.counts.duplicates++
    else if (status === slotStatus.confirmed) this.#confirm(tracked, update)
    else if (status === slotStatus.finalized) this.#finalize(tracked, update)
    else if (status === slotStatus.processed && tracked.isOpen) tracked.defer(update)
    else this.#publish(tracked, update)
  }

  /** The first bank of a slot, the same one again from another connection, or the next one. */
  #createBank(tracked: TrackedSlot, update: SlotUpdate): void {
    const isConfirmed = tracked.hasStatus(slotStatus.confirmed)
    const bank = tracked.bankOf(update.parent, this.#connection, isConfirmed)
    if (bank === 'known') this.counts.duplicates++
    else {
      if (bank === 'next') {
        this.counts.replacedBanks++
        this.#hub.abandon(tracked.slot)
        tracked.replaceBank(this.#connection)
      }
      if (update.parent !== null) tracked.parent = update.parent
      this.#publish(tracked, update)
    }
  }

  /** Null for a slot below the floor, of which everything was published, or above the limit. */
  #track(slot: number): TrackedSlot | null {
    if (slot < this.#floor) {
      this.counts.duplicates++
      return null
    }
    const found = this.#slots.get(slot)
    if (found !== undefined) return found
    if (slot > this.#slotLimit()) {
      this.droppedAbove++
      return null
    }
    const tracked = new TrackedSlot(slot, this.#connection)
    this.#slots.set(slot, tracked)
    if (this.#newest === null || slot > this.#newest) this.#newest = slot
    if (this.#gapFrom !== null) {
      this.counts.gapSlots += Math.max(0, slot - this.#gapFrom)
      this.#gapFrom = null
    }
    if (this.#slots.size > slotsMax) this.#slots.delete(this.#slots.keys().next().value!)
    return tracked
  }

  #tryComplete(tracked: TrackedSlot): void {
    const { meta } = tracked
    const items = meta === null ? null : itemsOf(tracked, meta)
    if (meta === null || items === null) return
    // Several connections or banks sent it: confirmed and finalized get the last one's version.
    const isMixed = tracked.dedup !== null || tracked.hasReplacedBank
    if (isMixed) this.#hub.restate(tracked.slot, items)
    this.#hub.content(new AssembledBlock(meta, items, isMixed))
    const received = tracked.items
    this.#close(tracked, meta)
    tracked.isComplete = true
    const connection = this.#connection
    if (tracked.hasReplacedBank) tracked.provisional = { meta, received, connection, dedup: null }
    if (this.#newestComplete === null || tracked.slot > this.#newestComplete)
      this.#newestComplete = tracked.slot
  }

  /** Missing items will not come any more: publishes the meta without the block. */
  #giveUp(tracked: TrackedSlot): void {
    // Late items of the bank before cannot be told from its own: neither may be confirmed.
    if (tracked.hasReplacedBank) this.#hub.restate(tracked.slot, [])
    if (tracked.meta !== null) {
      this.counts.incompleteBlocks++
      this.#close(tracked, tracked.meta)
    } else this.#release(tracked)
  }

  #close(tracked: TrackedSlot, meta: BlockMetaUpdate): void {
    this.#hub.content(meta)
    tracked.close(meta)
    this.#release(tracked)
  }

  #release(tracked: TrackedSlot): void {
    for (const update of tracked.takeDeferred()) publishUpdate(this.#hub, update)
  }

  /** An item of a block that was published: late, or replayed by another connection. */
  #itemAfter(tracked: TrackedSlot, update: SlotItem): void {
    if (tracked.provisional !== null && update.kind !== 'account')
      this.#recomplete(tracked.slot, tracked.provisional, update)
    else if (tracked.connection !== this.#connection) {
      this.counts.duplicates++
      if (tracked.checkedConnection !== this.#connection) tracked.replayedItems.push(update)
    } else if (tracked.isComplete && tracked.hasStatus(slotStatus.confirmed))
      this.counts.duplicates++
    else this.#hub.content(update)
  }

  /**
   * A transaction or entry after the last one of its block: one before it was of the bank that was
   * replaced. The block at processed was a mixture; what is confirmed is the last bank's.
   */
  #recomplete(slot: number, block: ProvisionalBlock, update: SlotItem): void {
    if (block.connection !== this.#connection) {
      block.connection = this.#connection
      block.dedup = new ReplayDedup(block.received, block.dedup)
      const accounts = [...block.received].filter(({ kind }) => kind === 'account')
      block.received = new UpdateList()
      for (const account of accounts) block.received.push(account)
    }
    block.received.push(update)
    if (block.dedup?.consume(update) === true) this.counts.duplicates++
    else this.#hub.content(update)
    const items = lastItems(block.received, block.meta)
    if (items === null) return
    const { meta } = block
    this.#hub.restate(slot, [...items, new AssembledBlock(meta, items, true), meta])
  }

  #metaAfter(tracked: TrackedSlot, update: BlockMetaUpdate): void {
    const replayed = tracked.replayedItems
    tracked.replayedItems = []
    if (tracked.connection === this.#connection || tracked.blockhash === update.blockhash) {
      this.counts.duplicates++
      tracked.checkedConnection = this.#connection
      return
    }
    this.counts.rewrittenBlocks++
    tracked.checkedConnection = this.#connection
    // A confirmed block is never replaced.
    if (tracked.hasStatus(slotStatus.confirmed)) return
    this.#hub.abandon(tracked.slot)
    tracked.reopen(this.#connection)
    for (const item of replayed) this.item(item)
    this.meta(update)
  }

  #confirm(tracked: TrackedSlot, update: SlotUpdate): void {
    for (const one of this.#ancestry(tracked, slotStatus.confirmed))
      this.#reach(one, one === tracked ? update : derived(one, slotStatus.confirmed, update))
  }

  #finalize(tracked: TrackedSlot, update: SlotUpdate): void {
    const line = new Set(this.#ancestry(tracked, slotStatus.finalized))
    // Older confirmed slots are final too, even if a gap hides the parent links between them.
    for (const one of this.#slots.values())
      if (one.slot < tracked.slot && isConfirmedOnly(one)) line.add(one)
    for (const one of [...line].sort((a, b) => a.slot - b.slot)) {
      if (!one.hasStatus(slotStatus.confirmed))
        this.#reach(one, derived(one, slotStatus.confirmed, update))
      this.#reach(one, one === tracked ? update : derived(one, slotStatus.finalized, update))
    }
    this.#forget(tracked.slot)
  }

  /** The slot and its ancestors that lack this status, oldest first. */
  #ancestry(tracked: TrackedSlot, status: SlotStatus): TrackedSlot[] {
    const line = [tracked]
    let at: TrackedSlot | undefined = tracked
    while (at !== undefined && at.parent !== null && at.parent < at.slot) {
      at = this.#slots.get(at.parent)
      if (at === undefined || at.hasStatus(status) || at.hasStatus(slotStatus.dead)) break
      line.push(at)
    }
    return line.reverse()
  }

  #reach(tracked: TrackedSlot, update: SlotUpdate): void {
    if (tracked.isOpen) this.#giveUp(tracked)
    this.#publish(tracked, update)
  }

  #publish(tracked: TrackedSlot, update: SlotUpdate): void {
    tracked.statuses |= statusBit(update.status)
    if (update.status === slotStatus.dead) tracked.isLost = true
    if (update.status === slotStatus.confirmed) tracked.provisional = null
    publishUpdate(this.#hub, update)
  }

  /** Abandons forks below a finalized slot and evicts slots below the floor. */
  #forget(finalized: number): void {
    this.#floor = Math.max(this.#floor, finalized - keptSlots)
    for (const tracked of [...this.#slots.values()]) {
      if (tracked.slot >= finalized) continue
      const isFork = !tracked.hasStatus(slotStatus.finalized)
      if (isFork) {
        this.#hub.abandon(tracked.slot)
        tracked.isLost = true
      }
      if (tracked.slot < this.#floor) this.#slots.delete(tracked.slot)
    }
  }
}

function isConfirmedOnly(tracked: TrackedSlot): boolean {
  return tracked.hasStatus(slotStatus.confirmed) && !tracked.hasStatus(slotStatus.finalized)
}

/** A status that no node sent, derived from a descendant's. */
function derived(tracked: TrackedSlot, status: SlotStatus, from: SlotUpdate): SlotUpdate {
  const { slot, parent } = tracked
  return slotUpdate({ slot, createdAtMs: from.createdAtMs }, { parent, status })
}

/** A block that may contain items of the bank that was replaced, instead of some that are late. */
interface ProvisionalBlock {
  readonly meta: BlockMetaUpdate
  /** Transactions and entries as this connection sent them, and the accounts of the block. */
  received: UpdateList<SlotItem>
  connection: number
  dedup: ReplayDedup | null
}

/** State of one slot: its items, deferred and published statuses. The tracker decides. */
class TrackedSlot {
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
    this.replayedItems = []
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

function statusBit(status: SlotStatus): number {
  return 1 << status
}

/** The statuses of a bank; the others are of the slot's shreds. */
const bankStatuses =
  statusBit(slotStatus.processed) | statusBit(slotStatus.createdBank) | statusBit(slotStatus.dead)

/** All items of the block; null while some are missing. */
function itemsOf(tracked: TrackedSlot, meta: BlockMetaUpdate): UpdateList<SlotItem> | null {
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
function lastItems(
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
class ReplayDedup {
  readonly #left: Map<string, number>

  /** `earlier` has the items of previous connections that the last one did not replay. */
  constructor(items: Iterable<SlotItem>, earlier: ReplayDedup | null) {
    this.#left = earlier === null ? new Map() : new Map(earlier.#left)
    for (const item of items) {
      const name = nameOf(item)
      this.#left.set(name, (this.#left.get(name) ?? 0) + 1)
    }
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
class AssembledBlock implements BlockUpdate {
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
