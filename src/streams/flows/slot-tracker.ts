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
//
// What was published of a void bank is retracted, once: all of the slot up to there. Where late
// items of it were published as the next one's, that one is retracted too, and what is valid of it
// is restated with the retraction. So what is published and not retracted is what is confirmed.
import { retractionUpdate, slotUpdate } from '../../chain/solana/update-build.ts'
import {
  type BlockMetaUpdate,
  type RetractionReason,
  type SlotStatus,
  type SlotUpdate,
  type SolanaUpdate,
  slotStatus,
} from '../../chain/solana/updates.ts'
import { publishUpdate, type SolanaHub } from '../geyser/hub.ts'
import { UpdateList } from '../hub/update-list.ts'
import {
  AssembledBlock,
  bankStatuses,
  itemsOf,
  lastItems,
  type ProvisionalBlock,
  ReplayDedup,
  type SlotItem,
  statusBit,
  TrackedSlot,
} from './tracked-slot.ts'

/** Slots remembered below the newest finalized one: a replay may contain them. */
const keptSlots = 64
const keptMs = 25_600
/** Slots remembered when nothing is ever finalized; the oldest entry is evicted. */
const slotsMax = 2_048
const slotsMsMax = 800_000

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
  /** Time of the newest status or meta. */
  #nowMs = 0
  /** The requested resume slot that was not replayed, until the new connection's first slot. */
  #gapFrom: number | null = null
  /** A connection without a replay began inside of slots up to this; null before its content. */
  #partUpTo: number | null = -1

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
    this.#partUpTo = fromSlot === null ? null : -1
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
    for (const tracked of this.#slots.values())
      if (!tracked.hasStatus(slotStatus.finalized)) this.#retract(tracked, 'migration')
    this.#slots.clear()
    this.#floor = 0
    this.#newest = null
    this.#newestComplete = null
    this.#gapFrom = null
    this.#hub.slotTime.restart()
    this.#hub.restart()
  }

  item(update: SlotItem): void {
    const tracked = this.#track(update.slot)
    if (tracked === null || this.#isPart(tracked)) return
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
    else this.#content(tracked, update)
    if (tracked.meta !== null) this.#tryComplete(tracked)
  }

  meta(update: BlockMetaUpdate): void {
    const tracked = this.#track(update.slot)
    if (tracked === null || this.#isPart(tracked)) return
    if (tracked.isVoid(this.#connection)) {
      this.counts.duplicates++
      return
    }
    tracked.parent = update.parentSlot
    this.#nowMs = update.createdAtMs
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
    this.#nowMs = update.createdAtMs
    if (status === slotStatus.createdBank) {
      this.#createBank(tracked, update)
      return
    }
    if (parent !== null && !tracked.isVoid(this.#connection)) tracked.parent = parent
    const isOfVoid = tracked.isVoid(this.#connection) && (statusBit(status) & bankStatuses) !== 0
    // What died of a confirmed slot was another bank, which a node replays.
    const isLate = status === slotStatus.dead && tracked.hasStatus(slotStatus.confirmed)
    if (tracked.hasStatus(status) || isOfVoid || isLate) this.counts.duplicates++
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
        this.#retract(tracked, this.#reasonToReplace(tracked))
        this.#hub.replace(tracked.slot)
        tracked.replaceBank(this.#connection)
      }
      if (update.parent !== null) tracked.parent = update.parent
      this.#publish(tracked, update)
    }
  }

  #reasonToReplace(tracked: TrackedSlot): RetractionReason {
    if (tracked.hasStatus(slotStatus.dead)) return 'dead'
    if (tracked.isSetBack) return 'migration'
    // A leader can hand over only what was not complete.
    if (tracked.blockhash === null) return 'handover'
    const slots = [...this.#slots.values()]
    if (!slots.some((one) => one.parent === tracked.slot && one.blockhash !== null)) return 'fork'
    const confirmed = slots.filter((one) => one.hasStatus(slotStatus.confirmed))
    const newest = Math.max(-1, ...confirmed.map(({ slot }) => slot))
    for (const one of slots) if (one.slot > newest) one.isSetBack = true
    return 'migration'
  }

  #content(tracked: TrackedSlot, update: SolanaUpdate): void {
    tracked.hasPublished = true
    this.#hub.content(update)
  }

  /** Everything published of the slot is void. */
  #retract(tracked: TrackedSlot, reason: RetractionReason): void {
    if (!tracked.hasPublished) return
    this.#publishRetraction(tracked, reason, [])
    tracked.hasPublished = false
  }

  /** The same, but for this content: it is of the bank that the slot has now. */
  #retractAllBut(tracked: TrackedSlot, content: Iterable<SolanaUpdate>): void {
    const { createdBank } = slotStatus
    const isCreated = tracked.hasStatus(createdBank)
    const status = isCreated ? [derived(tracked, createdBank, { createdAtMs: this.#nowMs })] : []
    this.#publishRetraction(tracked, tracked.retractedFor ?? 'fork', [...status, ...content])
    tracked.hasPublished = true
  }

  #publishRetraction(
    tracked: TrackedSlot,
    reason: RetractionReason,
    restated: readonly SolanaUpdate[],
  ): void {
    const { slot, bank } = tracked
    const moment = { slot, createdAtMs: this.#nowMs }
    publishUpdate(this.#hub, retractionUpdate(moment, { bank, reason, restated }))
    tracked.retract(reason)
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
    if (this.#slots.size > this.#hub.slotTime.slotsIn(slotsMsMax, slotsMax))
      this.#slots.delete(this.#slots.keys().next().value!)
    return tracked
  }

  /**
   * Whether a connection without a replay began inside of the slot: what it sends of it is no
   * block, and left out. A bank whose creation it sent is whole.
   */
  #isPart(tracked: TrackedSlot): boolean {
    const { slot, firstConnection } = tracked
    const isFirst = this.#partUpTo === null
    this.#partUpTo ??= slot
    if (slot > this.#partUpTo || firstConnection !== this.#connection) return false
    if (tracked.hasStatus(slotStatus.createdBank)) return false
    if (isFirst && this.#connection > 1) this.counts.gapSlots++
    return true
  }

  #tryComplete(tracked: TrackedSlot): void {
    const { meta } = tracked
    const items = meta === null ? null : itemsOf(tracked, meta)
    if (meta === null || items === null) return
    // Several connections or banks sent it: confirmed and finalized get the last one's version.
    const { dedup } = tracked
    const isMixed = dedup !== null || items !== tracked.items
    if (isMixed && !tracked.hasStatus(slotStatus.confirmed)) {
      this.#hub.restate(tracked.slot, items)
      const isOther = dedup?.isDone === false || items.length !== tracked.items.length
      // Of a slot that was dead on another connection everything is retracted.
      if (isOther || tracked.hasStatus(slotStatus.dead)) this.#retractAllBut(tracked, items)
    }
    this.#content(tracked, new AssembledBlock(meta, items, isMixed))
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
    if (tracked.hasReplacedBank && !tracked.hasStatus(slotStatus.confirmed)) {
      this.#hub.restate(tracked.slot, [])
      this.#retractAllBut(tracked, [])
    }
    if (tracked.meta !== null) {
      this.counts.incompleteBlocks++
      this.#close(tracked, tracked.meta)
    } else this.#release(tracked)
  }

  #close(tracked: TrackedSlot, meta: BlockMetaUpdate): void {
    this.#hub.slotTime.observe(meta.slot, meta.createdAtMs)
    this.#content(tracked, meta)
    tracked.close(meta)
    this.#release(tracked)
  }

  #release(tracked: TrackedSlot): void {
    for (const update of tracked.takeDeferred()) {
      tracked.hasPublished = true
      publishUpdate(this.#hub, update)
    }
  }

  /** An item of a block that was published: late, or replayed by another connection. */
  #itemAfter(tracked: TrackedSlot, update: SlotItem): void {
    if (tracked.provisional !== null && update.kind !== 'account')
      this.#recomplete(tracked, tracked.provisional, update)
    else {
      const isConfirmed = tracked.hasStatus(slotStatus.confirmed)
      const isReplayed = tracked.connection !== this.#connection
      if (isReplayed || (tracked.isComplete && isConfirmed)) this.counts.duplicates++
      else this.#content(tracked, update)
      // The block that they make may be another one, without a CREATED_BANK that tells it.
      if (!isConfirmed) tracked.addAfter(update, this.#connection)
    }
  }

  /**
   * A transaction or entry after the last one of its block: one before it was of the bank that was
   * replaced. The block at processed was a mixture; what is confirmed is the last bank's.
   */
  #recomplete(tracked: TrackedSlot, block: ProvisionalBlock, update: SlotItem): void {
    if (block.connection !== this.#connection) {
      block.connection = this.#connection
      block.dedup = new ReplayDedup(block.received, block.dedup)
      const accounts = [...block.received].filter(({ kind }) => kind === 'account')
      block.received = new UpdateList()
      for (const account of accounts) block.received.push(account)
    }
    block.received.push(update)
    if (block.dedup?.consume(update) === true) this.counts.duplicates++
    else this.#content(tracked, update)
    const items = lastItems(block.received, block.meta)
    if (items === null) return
    const { meta, dedup, received } = block
    const restated = [...items, new AssembledBlock(meta, items, true), meta]
    this.#hub.restate(tracked.slot, restated)
    if (dedup?.isDone === true && items.length === received.length) return
    const { processed } = slotStatus
    const status = tracked.hasStatus(processed) ? [derived(tracked, processed, meta)] : []
    this.#retractAllBut(tracked, [...restated, ...status])
  }

  #metaAfter(tracked: TrackedSlot, update: BlockMetaUpdate): void {
    const items = tracked.takeAfter()
    if (tracked.blockhash === update.blockhash) {
      this.counts.duplicates++
      return
    }
    this.counts.rewrittenBlocks++
    // A confirmed block is never replaced.
    if (tracked.hasStatus(slotStatus.confirmed)) return
    this.#retract(tracked, 'fork')
    this.#hub.abandon(tracked.slot)
    tracked.reopen(this.#connection)
    for (const item of items) this.item(item)
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
    // Left out for a block that was rooted early, or still to come: never after what follows it.
    if (tracked.blockhash !== null && !tracked.hasStatus(slotStatus.processed))
      this.#publish(tracked, derived(tracked, slotStatus.processed, update))
    this.#publish(tracked, update)
  }

  #publish(tracked: TrackedSlot, update: SlotUpdate): void {
    tracked.statuses |= statusBit(update.status)
    if (update.status === slotStatus.dead) {
      tracked.isLost = true
      this.#retract(tracked, 'dead')
    } else if ((statusBit(update.status) & bankStatuses) !== 0) tracked.hasPublished = true
    if (update.status === slotStatus.confirmed) tracked.provisional = null
    publishUpdate(this.#hub, update)
  }

  /** Abandons forks below a finalized slot and evicts slots below the floor. */
  #forget(finalized: number): void {
    this.#floor = Math.max(this.#floor, finalized - this.#hub.slotTime.slotsIn(keptMs, keptSlots))
    for (const tracked of [...this.#slots.values()]) {
      if (tracked.slot >= finalized) continue
      const isFork = !tracked.hasStatus(slotStatus.finalized)
      if (isFork) {
        const isDead = tracked.hasStatus(slotStatus.dead)
        this.#retract(tracked, isDead ? 'dead' : tracked.isSetBack ? 'migration' : 'fork')
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
function derived(
  tracked: TrackedSlot,
  status: SlotStatus,
  from: { readonly createdAtMs: number },
): SlotUpdate {
  const { slot, parent } = tracked
  return slotUpdate({ slot, createdAtMs: from.createdAtMs }, { parent, status })
}
