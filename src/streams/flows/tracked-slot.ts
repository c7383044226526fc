// One slot as the tracker knows it: its banks, what each stream has sent of them, and which items
// are the block's. The tracker decides; nothing here publishes.
import { Commitment } from '../../base/commitment.ts'
import { keyOf } from '../../chain/solana/base58.ts'
import { retractionUpdate, slotUpdate } from '../../chain/solana/received-batch.ts'
import {
  type AccountUpdate,
  type BlockMetaUpdate,
  type BlockUpdate,
  type EntryUpdate,
  type RetractionReason,
  type SlotStatus,
  type SlotUpdate,
  type SolanaUpdate,
  slotStatus,
  type TransactionUpdate,
} from '../../chain/solana/updates.ts'
import { publishUpdate, type SolanaHub } from '../geyser/hub.ts'
import { UpdateList } from '../hub/update-list.ts'
import { type Arrival, ItemNames, type SlotItem } from './item-names.ts'

/** Banks remembered of a slot; an honest leader has one or two. */
const banksMax = 8

/** One execution of a slot. */
export interface Bank {
  /** Ours: those of nodes are counters of a process. What follows a retraction has another. */
  id: number
  /** Null while unknown. */
  parent: number | null
  /** Of its complete block; null before. */
  blockhash: string | null
}

/** What one connection has sent of a slot. */
export class SlotView {
  readonly stream: number
  readonly connection: number
  /** The bank that it sends now. */
  bank: Bank
  items = new UpdateList<SlotItem>()
  transactions = 0
  entries = 0
  /** Items of its bank that it was the first to send. */
  firsts = 0
  meta: BlockMetaUpdate | null = null
  /** As in the meta, which is dropped with the items. */
  blockhash: string | null = null
  /** Its processed status of a bank that is not the published one. */
  processed: SlotUpdate | null = null
  /** It replaced a bank: late items of that one may precede those of the next. */
  hasReplacedBank = false
  isDisputed = false
  /** Its connection began inside of the bank: it lacks writes, which nothing counts. */
  isPart = false
  /** More than what is written with the creation of a bank, which may precede its message. */
  hasContent = false
  #hasBank = false
  /** Something of the bank was received. */
  #isTouched = false
  /** Banks that it replaced or declared dead: it does not return to them. */
  readonly #left: Bank[] = []

  constructor(stream: number, connection: number, bank: Bank) {
    this.stream = stream
    this.connection = connection
    this.bank = bank
  }

  add(item: SlotItem): void {
    this.items.push(item)
    this.#isTouched = true
    if (!this.hasContent) this.hasContent = item.kind !== 'account' || item.txnSignature !== null
    if (item.kind === 'transaction') this.transactions++
    else if (item.kind === 'entry') this.entries++
  }

  setMeta(meta: BlockMetaUpdate): void {
    this.#isTouched = true
    this.meta = meta
    this.blockhash = meta.blockhash
  }

  /** It sends the items of a bank from now on. */
  begin(bank: Bank): void {
    if (this.#hasBank && bank === this.bank && !this.#isTouched) return
    if (this.#hasBank || this.#isTouched) this.hasReplacedBank = true
    if (this.#hasBank || this.hasContent || bank !== this.bank) {
      if (this.#hasBank && bank !== this.bank) this.leave()
      this.drop()
      this.blockhash = null
      this.processed = null
      this.firsts = 0
      this.hasContent = false
      this.#isTouched = false
    }
    this.bank = bank
    this.#hasBank = true
    this.isPart = false
  }

  /** It has sent a whole block: what it sends next is of another one, whose bank nothing told. */
  get isWhole(): boolean {
    const { meta } = this
    if (meta === null || this.hasReplacedBank || this.entries !== meta.entriesCount) return false
    return this.transactions === meta.executedTransactionCount
  }

  /** It has the same block, and later items of the bank; both have those of a bank before, too. */
  isAheadOf(view: SlotView): boolean {
    if (!this.hasReplacedBank || !view.hasReplacedBank || this.bank !== view.bank) return false
    if (this.meta === null || this.blockhash !== view.blockhash) return false
    return this.transactions + this.entries > view.transactions + view.entries
  }

  /** It has replaced its bank, or declared it dead. */
  leave(): void {
    this.#isTouched = true
    if (!this.#left.includes(this.bank)) this.#left.push(this.bank)
  }

  /** Its bank is dead. */
  get hasLeft(): boolean {
    return this.#left.includes(this.bank)
  }

  /** Drops what was received; the block is not made from it any more. */
  drop(): void {
    this.items = new UpdateList()
    this.transactions = 0
    this.entries = 0
    this.meta = null
  }

  /**
   * The known bank that it has created. It replays those that are known by their parents; what it
   * creates after the published one is known only if another stream has it, which `isHeld` decides.
   */
  bankOf(
    parent: number | null,
    tracked: TrackedSlot,
    isHeld: (bank: Bank) => boolean,
  ): Bank | null {
    const isNext = this.#hasBank && this.bank === tracked.bank
    // Nothing was received of it: the same message twice.
    if (isNext && parent === this.bank.parent && !this.#isTouched) return this.bank
    const isIt = (bank: Bank) =>
      bank.parent === parent && !this.#left.includes(bank) && (!isNext || isHeld(bank))
    if (!isNext && isIt(tracked.bank)) return tracked.bank
    return tracked.banks.find((bank) => bank !== tracked.bank && isIt(bank)) ?? null
  }

  /** That of the blockhash; that of the parent where a replay left out which bank it sends. */
  bankOfMeta({ blockhash, parentSlot }: BlockMetaUpdate, tracked: TrackedSlot): Bank {
    const { bank } = this
    const known = tracked.banks.find((one) => one.blockhash === blockhash)
    if (known !== undefined) return known
    if (this.#hasBank || bank.parent === null || bank.parent === parentSlot) return bank
    return tracked.banks.find(({ parent }) => parent === parentSlot) ?? tracked.addBank(parentSlot)
  }

  /** All items of the block; null while some are missing. */
  itemsOf(meta: BlockMetaUpdate, isMerged: boolean): UpdateList<SlotItem> | null {
    const transactions = this.transactions - meta.executedTransactionCount
    const entries = this.entries - meta.entriesCount
    if (transactions < 0 || entries < 0 || this.isPart) return null
    const isClean = !this.hasReplacedBank && (this.#hasBank || !isMerged)
    return transactions === 0 && entries === 0 && isClean ? this.items : lastItems(this.items, meta)
  }
}

/** State of one slot: its banks, what was sent of it, deferred and published statuses. */
export class TrackedSlot {
  readonly slot: number
  parent: number | null = null
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
  /** The bank that is published. */
  bank: Bank
  nextBankId: number
  /** All known ones, oldest first. */
  readonly banks: Bank[]
  /** Whether a node has named the parent of its first bank. */
  isCreated = false
  /** What each stream has sent, on its last connection. */
  readonly views: SlotView[] = []
  /** Items of the bank that were published. */
  published = 0
  /** The one that sent all of them, while there is only one. */
  owner: SlotView | null = null
  /** Their names, once there is another one. */
  names: ItemNames | null = null
  /** Blockhash of the published block; null before. */
  blockhash: string | null = null
  /** Of the block that it is built on, as the published block names it. */
  parentBlockhash: string | null = null
  /** Whose items the published block has. */
  publisher: SlotView | null = null
  /** Items are missing and will never come. */
  isLost = false
  /** A node has confirmed it, or a slot after it: its bank stays, also while items are missing. */
  isDecided = false
  /** The block was published with all its items. */
  isComplete = false
  /** Meta of a block that may have items of a replaced bank for late ones, until confirmed. */
  provisional: BlockMetaUpdate | null = null
  #deferred: SlotUpdate[] = []

  constructor(slot: number, firstBankId: number, firstConnection: number) {
    this.slot = slot
    this.firstConnection = firstConnection
    this.bank = { id: firstBankId, parent: null, blockhash: null }
    this.nextBankId = firstBankId + 1
    this.banks = [this.bank]
  }

  /** Something of it arrived, and its block was not published yet. */
  get isOpen(): boolean {
    if (this.blockhash !== null || this.isLost) return false
    return this.names !== null || this.owner !== null || this.metaOf() !== null
  }

  hasStatus(status: SlotStatus): boolean {
    return (this.statuses & statusBit(status)) !== 0
  }

  get isSettled(): boolean {
    return this.isDecided || this.hasStatus(slotStatus.confirmed)
  }

  /** The highest commitment whose status was published. */
  get reached(): Commitment {
    const { processed, confirmed, finalized } = Commitment
    if (this.hasStatus(finalized)) return finalized
    return this.hasStatus(confirmed) ? confirmed : processed
  }

  get isConfirmedOnly(): boolean {
    return this.hasStatus(slotStatus.confirmed) && !this.hasStatus(slotStatus.finalized)
  }

  /** What a connection has sent; null before its first item. */
  viewOf(stream: number, connection: number): SlotView | null {
    const view = this.views.find((one) => one.stream === stream)
    return view?.connection === connection ? view : null
  }

  /** A connection begins to send the slot, from its start. */
  addView(stream: number, connection: number): SlotView {
    const view = new SlotView(stream, connection, this.bank)
    const at = this.views.findIndex((one) => one.stream === stream)
    if (at === -1) this.views.push(view)
    else this.views[at] = view
    this.names?.restart(stream)
    return view
  }

  /** The meta that a stream has sent of the published bank. */
  metaOf(): BlockMetaUpdate | null {
    return this.views.find(({ bank, meta }) => bank === this.bank && meta !== null)?.meta ?? null
  }

  addBank(parent: number | null): Bank {
    const bank: Bank = { id: this.nextBankId++, parent, blockhash: null }
    this.banks.push(bank)
    if (this.banks.length > banksMax) this.banks.splice(this.banks[0] === this.bank ? 1 : 0, 1)
    return bank
  }

  /** Whether an item is the first of its name that was sent of the published bank. */
  arrive(view: SlotView, item: SlotItem, isMerged: boolean): Arrival {
    if (isMerged) this.names ??= this.#namesOf(view)
    else if (this.names === null) {
      this.owner ??= view
      if (this.owner !== view) this.names = this.#namesOf(view)
    }
    const isJudged = this.banks.length === 1 && !view.hasReplacedBank
    const arrival = this.names?.arrive(item, view.stream, isJudged) ?? 'first'
    if (arrival !== 'first') return arrival
    this.published++
    view.firsts++
    return arrival
  }

  #namesOf(view: SlotView): ItemNames {
    const names = new ItemNames()
    const { owner } = this
    for (const item of owner?.items ?? [])
      if (names.arrive(item, owner!.stream, true) === 'contradiction')
        names.arrive(item, owner!.stream, false)
    // Another connection of the same stream.
    if (owner !== null && owner !== view) names.restart(view.stream)
    this.owner = null
    return names
  }

  /** Nothing else is published of the bank now. */
  restate(view: SlotView, items: UpdateList<SlotItem>): void {
    this.published = items.length
    this.names &&= new ItemNames()
    for (const item of items) this.names?.arrive(item, view.stream, false)
  }

  /** The block's items where the streams have all of them, though none of them alone. */
  wholeUnion(): UpdateList<SlotItem> | null {
    const meta = this.metaOf()
    return this.names === null || meta === null ? null : lastItems(this.#union(), meta)
  }

  /** Everything that the streams have sent of the published bank, each item once. */
  #union(): UpdateList<SlotItem> {
    const names = new ItemNames()
    const items = new UpdateList<SlotItem>()
    for (const view of this.views)
      if (view.bank === this.bank)
        for (const item of view.items)
          if (names.arrive(item, view.stream, false) === 'first') items.push(item)
    return items
  }

  /** Of items of the published bank; late writes of another one cannot be told from its own. */
  blockOf(meta: BlockMetaUpdate, items: UpdateList<SlotItem>, isMixed: boolean): AssembledBlock {
    return new AssembledBlock(meta, items, { isMixed, hasVoid: this.banks.length > 1 })
  }

  /** Discards what was published of the bank before. */
  replaceBank(bank: Bank): void {
    this.bank = bank
    this.blockhash = null
    this.parentBlockhash = null
    this.publisher = null
    this.isComplete = false
    this.isLost = false
    this.provisional = null
    this.#restart()
    this.#deferred = []
    this.statuses &= ~bankStatuses
  }

  /** It is dead, and another stream sends its bank from the start: what is missing may come. */
  reopen(view: SlotView): void {
    view.hasReplacedBank = true
    if (view.bank === this.bank) this.isLost = false
  }

  /** Its missing items will never come; those that a connection still sends are no duplicates. */
  lose(stream: number, connection: number): void {
    this.isLost = true
    this.views.length = 0
    this.#restart()
    const view = this.addView(stream, connection)
    if (this.publisher !== null) this.publisher = view
  }

  #restart(): void {
    this.published = 0
    this.owner = null
    this.names = null
  }

  close(view: SlotView, meta: BlockMetaUpdate): void {
    this.blockhash = meta.blockhash
    this.parent = meta.parentSlot
    this.parentBlockhash = meta.parentBlockhash
    this.publisher = view
    this.owner = view
  }

  /** No block of the slot is made any more. */
  dropContent(): void {
    this.names = null
    this.provisional = null
    for (const view of this.views) view.drop()
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
}

/** The first slot that is not complete, or has a block and is not below `from`. */
export function firstOpen(slots: ReadonlyMap<number, TrackedSlot>, from: number): number | null {
  let lowest: number | null = null
  for (const { slot, isOpen, provisional, blockhash } of slots.values())
    if (isOpen || provisional !== null || (blockhash !== null && slot >= from))
      if (lowest === null || slot < lowest) lowest = slot
  return lowest
}

/** Whether the ancestors of a slot, as far as they are known, have none of that number. */
export function isSkipped(
  slots: ReadonlyMap<number, TrackedSlot>,
  newest: number,
  slot: number,
): boolean {
  let at = slots.get(newest)
  while (at !== undefined && at.parent !== null && at.parent > slot && at.parent < at.slot)
    at = slots.get(at.parent)
  return at !== undefined && at.parent !== null && at.parent < slot
}

export function statusBit(status: SlotStatus): number {
  return 1 << status
}

/** The statuses of a bank; the others are of the slot's shreds. */
export const bankStatuses =
  statusBit(slotStatus.processed) | statusBit(slotStatus.createdBank) | statusBit(slotStatus.dead)

/**
 * The block's items among those of several banks; null while some are missing. Transactions and
 * entries of a bank that was replaced may come after CREATED_BANK of the next one: a node has a
 * queue for each kind, so they precede the block's own, which have every index once.
 */
export function lastItems(
  received: UpdateList<SlotItem>,
  meta: BlockMetaUpdate,
): UpdateList<SlotItem> | null {
  const { executedTransactionCount, entriesCount } = meta
  const excess = { account: 0, transaction: -executedTransactionCount, entry: -entriesCount }
  for (const { kind } of received) if (kind !== 'account') excess[kind]++
  const items = new UpdateList<SlotItem>()
  const indexes = { transaction: new Set<number>(), entry: new Set<number>() }
  for (const item of received) {
    if (excess[item.kind]-- > 0) continue
    items.push(item)
    if (item.kind !== 'account') indexes[item.kind].add(item.index)
  }
  const areAllThere = isWhole(indexes.transaction, executedTransactionCount)
  return areAllThere && isWhole(indexes.entry, entriesCount) ? items : null
}

/** Whether they are the numbers from 0 up to the count. */
function isWhole(indexes: ReadonlySet<number>, count: number): boolean {
  return indexes.size === count && [...indexes].every((index) => index < count)
}

/** The lists are built on first access: they cost nothing unless a subscriber reads blocks. */
export class AssembledBlock implements BlockUpdate {
  readonly kind = 'block'
  readonly slot: number
  readonly createdAtMs: number
  readonly meta: BlockMetaUpdate
  readonly isMixed: boolean
  readonly hasVoid: boolean
  readonly items: UpdateList<SlotItem>
  #transactions: readonly TransactionUpdate[] | null = null
  #accounts: readonly AccountUpdate[] | null = null

  /** `items` are all those of the slot, in the order of arrival. */
  constructor(
    meta: BlockMetaUpdate,
    items: UpdateList<SlotItem>,
    { isMixed, hasVoid = false }: Pick<BlockUpdate, 'isMixed' | 'hasVoid'>,
  ) {
    this.slot = meta.slot
    this.createdAtMs = meta.createdAtMs
    this.meta = meta
    this.isMixed = isMixed === true
    this.hasVoid = hasVoid
    this.items = items
  }

  /** Sorted by index in the block: nodes send them in the order their threads finish. */
  get transactions(): readonly TransactionUpdate[] {
    if (this.#transactions === null) {
      const found = [...this.items].filter((item) => item.kind === 'transaction')
      const isSorted = found.every((one, at) => at === 0 || found[at - 1]!.index < one.index)
      this.#transactions = isSorted ? found : found.sort((a, b) => a.index - b.index)
    }
    return this.#transactions
  }

  /** The last write of each account; a block contains only that one. */
  get accounts(): readonly AccountUpdate[] {
    if (this.#accounts === null) {
      const last = new Map<string, AccountUpdate>()
      for (const item of this.items) if (item.kind === 'account') last.set(keyOf(item.pubkey), item)
      this.#accounts = [...last.values()]
    }
    return this.#accounts
  }

  get entries(): readonly EntryUpdate[] {
    return [...this.items].filter((item) => item.kind === 'entry')
  }
}

// What was published of a slot and is void is retracted, once and with its reason.

export class Retractions {
  /** Time of the newest status or meta. */
  nowMs = 0
  readonly #hub: SolanaHub

  constructor(hub: SolanaHub) {
    this.#hub = hub
  }

  /** Everything published of the slot is void. */
  retract(tracked: TrackedSlot, reason: RetractionReason): void {
    if (!tracked.hasPublished) return
    this.#publish(tracked, reason, [])
    tracked.hasPublished = false
  }

  /** The same, but for this content: it is of the bank that the slot has now. */
  retractAllBut(tracked: TrackedSlot, content: readonly SolanaUpdate[]): void {
    const { createdBank, processed } = slotStatus
    const statusOf = (status: SlotStatus) =>
      tracked.hasStatus(status) ? [derived(tracked, status, { createdAtMs: this.nowMs })] : []
    const ended = content.some(({ kind }) => kind === 'blockMeta') ? statusOf(processed) : []
    const reason = tracked.retractedFor ?? 'fork'
    this.#publish(tracked, reason, [...statusOf(createdBank), ...content, ...ended])
    tracked.hasPublished = true
  }

  /** What follows its bank is stated once more: what that changes was told from another bank. */
  restateAfter(tracked: TrackedSlot, slots: ReadonlyMap<number, TrackedSlot>): void {
    for (const [slot, updates] of this.#hub.unfinalized(slotStatus.processed)) {
      const one = slot > tracked.slot ? slots.get(slot) : undefined
      if (one?.parent !== tracked.slot || one.hasStatus(slotStatus.confirmed)) continue
      const content = [...updates]
      const meta = content.find((update) => update.kind === 'blockMeta')
      if ((meta?.parentBlockhash ?? tracked.blockhash) !== tracked.blockhash) continue
      this.retractAllBut(one, content)
      const restated = content.map((update) => withBank(one, update))
      this.#hub.restate(slot, restated)
      this.restateAfter(one, slots)
    }
  }

  #publish(tracked: TrackedSlot, reason: RetractionReason, content: readonly SolanaUpdate[]) {
    const { slot, bank } = tracked
    const { id } = bank
    bank.id = tracked.nextBankId++
    const restated = content.map((update) => withBank(tracked, update))
    const moment = { slot, createdAtMs: this.nowMs }
    publishUpdate(this.#hub, retractionUpdate(moment, { bank: id, reason, restated }))
    tracked.retractedFor = reason
    tracked.isSetBack = false
  }
}

/** Why the bank of the slot has lost. */
export function reasonToLose(tracked: TrackedSlot): RetractionReason {
  if (tracked.hasStatus(slotStatus.dead)) return 'dead'
  return tracked.isSetBack ? 'migration' : 'fork'
}

/** Why the next bank follows that of the slot, by all slots that are known. */
export function reasonToReplace(
  tracked: TrackedSlot,
  slots: readonly TrackedSlot[],
): RetractionReason {
  if (tracked.hasStatus(slotStatus.dead)) return 'dead'
  if (tracked.isSetBack) return 'migration'
  // A leader can hand over only what was not complete.
  if (tracked.blockhash === null) return 'handover'
  if (!slots.some((one) => one.parent === tracked.slot && one.blockhash !== null)) return 'fork'
  const confirmed = slots.filter((one) => one.hasStatus(slotStatus.confirmed))
  const newest = Math.max(-1, ...confirmed.map(({ slot }) => slot))
  for (const one of slots) if (one.slot > newest) one.isSetBack = true
  return 'migration'
}

/** A status that no node sent, derived from a descendant's. */
export function derived(
  tracked: TrackedSlot,
  status: SlotStatus,
  from: { readonly createdAtMs: number },
): SlotUpdate {
  const { slot, parent } = tracked
  return slotUpdate({ slot, createdAtMs: from.createdAtMs }, { parent, status })
}

/** With our id of the published bank, where the kind has one. */
export function withBank<U extends SolanaUpdate>(tracked: TrackedSlot, update: U): U {
  const hasId = update.kind === 'slot' || update.kind === 'blockMeta'
  return hasId ? { ...update, bank: tracked.bank.id } : update
}
