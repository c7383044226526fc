// Orders and deduplicates the updates of nodes and publishes them to the hub, across reconnects and
// over several streams at once. The order is the one that solana/updates.ts states; each update is
// published once: its first arrival.
//
//   items ────────────────────────► hub          a stream that reconnects replays incomplete
//   meta ──► waits until all items               slots from their start, and the other streams
//            of its block are there              send the same: duplicate items are dropped, and
//            ─► block, meta ──────► hub          confirmed and finalized get the slot as the
//   processed ─► waits for the block ► hub       first stream sent it that had all of it
//   confirmed, finalized ─► wait for the block ─► also for every ancestor without them ► hub
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
//
// Banks of two streams are one while their parents, entries, signatures and blockhashes agree. One
// that no stream has announced before is published at once, instead of the bank before. The others
// wait: a bank is published after all when the confirmed block after it names it or its stream
// confirms the slot, or when no open stream has the published one. A block after a whole one of the
// same stream is of another bank where its hash is another one, though no CREATED_BANK tells it.
import {
  type BlockMetaUpdate,
  type RetractionReason,
  type SlotUpdate,
  type SolanaUpdate,
  slotStatus,
} from '../../chain/solana/updates.ts'
import { publishUpdate, type SolanaHub } from '../geyser/hub.ts'
import type { UpdateList } from '../hub/update-list.ts'
import { Confirmations } from './confirmations.ts'
import type { SlotItem } from './item-names.ts'
import { OpenStreams, SlotCounts, type TrackerDeps } from './open-streams.ts'
import {
  type Bank,
  bankStatuses,
  derived,
  firstOpen,
  isSkipped,
  lastItems,
  Retractions,
  reasonToLose,
  reasonToReplace,
  type SlotView,
  statusBit,
  TrackedSlot,
  withBank,
} from './tracked-slot.ts'

/** Slots remembered below the newest finalized one: a replay may contain them. */
const keptSlots = 64
const keptMs = 25_600
/** Ids that a slot may need; with more it takes those of others, which no client keys alike. */
export const bankIdsOfSlot = 16
/** Slots remembered when nothing is ever finalized; the oldest entry is evicted. */
const slotsMax = 2_048
const slotsMsMax = 800_000

export class SlotTracker {
  readonly counts = new SlotCounts()
  /** Updates of slots above the limit, which were dropped. */
  droppedAbove = 0
  readonly #hub: SolanaHub
  readonly #deps: TrackerDeps
  readonly #slots = new Map<number, TrackedSlot>()
  readonly #streams = new OpenStreams(this.counts)
  readonly #retractions: Retractions
  #confirmations: Confirmations
  #floor = 0
  #firstContent = -1
  newestSlot: number | null = null
  #newestComplete: number | null = null
  #newestConfirmed = -1
  #newestFinalized = -1
  /** The requested resume slot that was not replayed, until the new connection's first slot. */
  #gapFrom: number | null = null

  constructor(hub: SolanaHub, deps: TrackerDeps = {}) {
    this.#hub = hub
    this.#deps = deps
    this.#retractions = new Retractions(hub)
    this.#confirmations = new Confirmations(this.#slots, this.#streams, hub)
  }

  /** A connection has begun without a replay: what lies between is lost. */
  get isGapOpen(): boolean {
    return this.#gapFrom !== null
  }

  /**
   * The first slot that is not complete or not confirmed; the newest complete one when all are. So
   * each connection has its own version of what its node confirms.
   */
  resumeFrom(): number | null {
    const complete = this.#newestComplete ?? 0
    const from = Math.max(this.#newestConfirmed + 1, complete - this.#keptSlots)
    return firstOpen(this.#slots, from) ?? this.#newestComplete
  }

  /**
   * A new connection of a stream begins, at `fromSlot`; null = live updates only, without a replay.
   * Slots are lost only if no other stream is open.
   */
  opened(fromSlot: number | null, stream = 0): void {
    const expected = firstOpen(this.#slots, Number.POSITIVE_INFINITY) ?? this.#newestComplete
    const connection = this.#streams.open(stream, fromSlot !== null)
    if (this.#streams.isMerged) return
    this.#gapFrom = fromSlot === null ? expected : null
    if (expected !== null && fromSlot !== null && fromSlot > expected)
      this.counts.gapSlots += fromSlot - expected
    for (const tracked of this.#slots.values()) {
      if (!tracked.isOpen || (fromSlot !== null && tracked.slot >= fromSlot)) continue
      this.#giveUp(tracked)
      tracked.lose(stream, connection)
    }
  }

  /** The connection of a stream is gone: banks that only it had are not published any more. */
  closed(stream = 0): void {
    this.#confirmations.forget(stream)
    if (!this.#streams.close(stream) || this.#streams.size === 0) return
    for (const tracked of [...this.#slots.values()].sort((a, b) => a.slot - b.slot)) {
      if (tracked.isComplete || tracked.isSettled || tracked.slot < this.#newestFinalized) continue
      const isOther = (view: SlotView) => view.bank !== tracked.bank && !view.hasLeft
      const other = tracked.views.find((view) => this.#streams.has(view) && isOther(view))
      if (other !== undefined) this.#switchUnlessHeld(tracked, other)
    }
  }

  /** Nothing that was published says anything about what follows. */
  beginAnew(): void {
    this.counts.restarts++
    for (const tracked of this.#slots.values())
      if (!tracked.hasStatus(slotStatus.finalized)) this.#retractions.retract(tracked, 'migration')
    this.#slots.clear()
    this.#confirmations = new Confirmations(this.#slots, this.#streams, this.#hub)
    this.#floor = 0
    this.#firstContent = -1
    this.newestSlot = null
    this.#newestComplete = null
    this.#newestConfirmed = -1
    this.#newestFinalized = -1
    this.#gapFrom = null
    this.#hub.slotTime.restart()
    this.#hub.restart()
  }

  item(update: SlotItem, stream = 0): void {
    const tracked = this.#trackContent(update, stream)
    if (tracked === null) return
    const view = this.#streams.viewOf(tracked, stream)
    if (view.bank !== tracked.bank) {
      this.counts.duplicates++
      if (view.isWhole) view.drop()
      // Kept while it may win: its stream may confirm it.
      const isRecent = tracked.slot + this.#keptSlots >= (this.newestSlot ?? 0)
      if (isRecent && !tracked.hasStatus(slotStatus.confirmed)) view.add(update)
      return
    }
    if (tracked.blockhash !== null) {
      this.#itemAfter(tracked, view, update)
      return
    }
    const arrival = tracked.arrive(view, update, this.#streams.isMerged)
    if (arrival === 'contradiction') this.#divide(tracked, view)
    view.add(update)
    if (arrival === 'first') this.#content(tracked, update, view)
    else this.counts.duplicates++
    if (arrival === 'contradiction') this.#switchUnlessHeld(tracked, view)
    else if (view.meta !== null) this.#tryComplete(tracked, view)
  }

  meta(update: BlockMetaUpdate, stream = 0): void {
    const tracked = this.#trackContent(update, stream)
    if (tracked === null) return
    const view = this.#streams.viewOf(tracked, stream)
    // Another bank of the same parent, which it replays, or the published one after all.
    const wasPublished = view.bank === tracked.bank
    view.bank = view.bankOfMeta(update, tracked)
    view.setMeta(update)
    this.#retractions.nowMs = update.createdAtMs
    if (view.bank !== tracked.bank) {
      this.counts.duplicates++
      if (wasPublished) this.#switchUnlessHeld(tracked, view)
      return
    }
    if (tracked.blockhash !== null) {
      this.#metaAfter(tracked, view)
      return
    }
    tracked.parent = update.parentSlot
    // What it has sent before was taken for another bank's.
    if (!wasPublished) this.#arriveAll(tracked, view, view.items)
    this.#tryComplete(tracked, view)
    // Too late to wait for missing items.
    if (tracked.blockhash === null && (tracked.isLost || tracked.hasStatus(slotStatus.confirmed)))
      this.#giveUp(tracked)
  }

  status(update: SlotUpdate, stream = 0): void {
    const tracked = this.#track(update.slot, stream)
    if (tracked === null) return
    const { status, parent } = update
    this.#retractions.nowMs = update.createdAtMs
    if (status === slotStatus.createdBank) {
      this.#createBank(tracked, this.#streams.viewOf(tracked, stream, true), update)
      return
    }
    const view = this.#streams.knownView(tracked, stream)
    const isVoid = view !== null && view.bank !== tracked.bank
    const isConfirming = status === slotStatus.confirmed || status === slotStatus.finalized
    if (parent !== null && !isVoid) tracked.parent = parent
    if (isVoid && status === slotStatus.processed) view.processed = update
    const isOfVoid = isVoid && (statusBit(status) & bankStatuses) !== 0
    // What died of a confirmed slot was another bank, which a node replays.
    const isLate = status === slotStatus.dead && tracked.isSettled
    if (tracked.hasStatus(status) || isOfVoid || isLate) this.counts.duplicates++
    else if (isConfirming) this.#confirmations.add({ update, stream })
    else if (status === slotStatus.processed && this.#confirmations.isToCome(tracked, stream))
      tracked.defer(update)
    else if (status === slotStatus.dead) this.#die(tracked, view, update)
    else this.#publish(tracked, update)
    if (!isConfirming) return
    this.#compare(tracked, stream)
    this.settle()
  }

  /** Publishes what nodes have confirmed, up to what is still to come. Called after each batch. */
  settle(): void {
    for (let next = this.#confirmations.next(); next !== null; next = this.#confirmations.next()) {
      const { update, stream, line } = next
      // What a bank changed is told by the one before it, which is published first.
      for (const { tracked, elected } of line) if (elected !== null) this.#switch(tracked, elected)
      const confirmed = line.map(({ tracked }) => tracked)
      const tracked = confirmed.at(-1)
      if (tracked === undefined) this.counts.duplicates++
      else if (update.status === slotStatus.finalized) this.#finalize(tracked, update, confirmed)
      else
        for (const one of confirmed)
          this.#reach(one, one === tracked ? update : derived(one, slotStatus.confirmed, update))
      const found = this.#slots.get(update.slot)
      if (found !== undefined) this.#compare(found, stream)
    }
  }

  #arriveAll(tracked: TrackedSlot, view: SlotView, items: UpdateList<SlotItem>): void {
    const { isMerged } = this.#streams
    tracked.names?.restart(view.stream)
    view.firsts = 0
    for (const item of items)
      if (tracked.arrive(view, item, isMerged) === 'first') this.#content(tracked, item, view)
  }

  /** `view`: of the stream that was the first to send it. */
  #content(tracked: TrackedSlot, update: SolanaUpdate, view?: SlotView): void {
    if (view !== undefined) this.#deps.arrived?.(view.stream)
    tracked.hasPublished = true
    this.#hub.content(update)
  }

  get #keptSlots(): number {
    return this.#hub.slotTime.slotsIn(keptMs, keptSlots)
  }

  /** The first bank of a slot, one that is known from another connection, or the next one. */
  #createBank(tracked: TrackedSlot, view: SlotView, update: SlotUpdate): void {
    const { parent } = update
    // What is dead was a bank before, of which nothing else came here.
    const isFirst = !tracked.isCreated && !tracked.hasStatus(slotStatus.dead)
    tracked.isCreated = true
    // What it has sent of the slot is of a bank before, whose creation its replay left out.
    if (isFirst && !view.hasContent) {
      tracked.bank.parent = parent
      view.begin(tracked.bank)
      if (parent !== null) tracked.parent = parent
      // Another stream was the first to send the bank: its creation is no news.
      if (tracked.published > 0 || tracked.blockhash !== null) this.counts.duplicates++
      else this.#publish(tracked, update)
      return
    }
    const known = view.bankOf(parent, tracked, (bank) => this.#streams.isHeld(tracked, bank))
    const bank = known ?? tracked.addBank(parent)
    const wasPublished = view.bank === tracked.bank
    // What it has sent before is of another bank, and all that follows is sent for the first time.
    if (view.hasContent) tracked.names?.restart(view.stream)
    view.begin(bank)
    if (tracked.hasStatus(slotStatus.dead)) tracked.reopen(view)
    // A complete block is not replaced while another stream has it, a confirmed one never.
    const isKept = tracked.isComplete && this.#streams.isHeld(tracked, tracked.bank)
    const isNext = known === null && !tracked.isSettled
    // Also where it is kept: the slots that are set back with it are noted.
    const reason = isNext ? reasonToReplace(tracked, [...this.#slots.values()]) : null
    if (reason === null || isKept) {
      this.counts.duplicates++
      if (wasPublished && bank !== tracked.bank) this.#switchUnlessHeld(tracked, view)
      return
    }
    this.#replace(tracked, bank, reason)
    if (parent !== null) tracked.parent = parent
    this.#publish(tracked, update)
  }

  #replace(tracked: TrackedSlot, bank: Bank, reason: RetractionReason): void {
    this.counts.replacedBanks++
    this.#retractions.retract(tracked, reason)
    this.#hub.replace(tracked.slot)
    tracked.replaceBank(bank)
  }

  /** What a stream sends is of another bank than the published one. */
  #divide(tracked: TrackedSlot, view: SlotView): void {
    view.bank = tracked.addBank(tracked.bank.parent)
    view.bank.blockhash = view.blockhash
    view.firsts = 0
  }

  /** Publishes the bank of a stream, where no open stream has the published one. */
  #switchUnlessHeld(tracked: TrackedSlot, view: SlotView): void {
    if (!tracked.isSettled && !this.#streams.isHeld(tracked, tracked.bank))
      this.#switch(tracked, view)
  }

  /** Publishes the bank of a stream instead of the published one, with all that is known of it. */
  #switch(tracked: TrackedSlot, elected: SlotView): void {
    const { bank, meta, items, processed, stream } = elected
    const [first = meta] = items
    this.#replace(tracked, bank, reasonToLose(tracked))
    tracked.parent = meta?.parentSlot ?? bank.parent ?? tracked.parent
    // Of a replay that left the creation out, only the meta tells the parent.
    if (tracked.parent !== null)
      this.#publish(tracked, derived(tracked, slotStatus.createdBank, first ?? { createdAtMs: 0 }))
    const others = tracked.views.filter((one) => one.bank === bank && one !== elected)
    for (const view of [elected, ...others]) this.#arriveAll(tracked, view, view.items)
    for (const view of [elected, ...others])
      if (tracked.blockhash === null) this.#tryComplete(tracked, view)
    if (processed !== null) this.status(processed, stream)
    this.#retractions.restateAfter(tracked, this.#slots)
  }

  /** Null for a slot of which nothing more is published: old, lost, or above the limit. */
  #track(slot: number, stream: number): TrackedSlot | null {
    const found = this.#slots.get(slot)
    // A stream that lags may send a fork that has lost.
    const isFinal = found?.hasStatus(slotStatus.finalized) === true
    const newest = this.#newestFinalized
    const isFork = slot < newest && !isFinal && isSkipped(this.#slots, newest, slot)
    // Nor is it news what becomes of a slot without content here: whoever reads here has passed it.
    const isPassed = slot < this.#firstContent && slot <= newest
    if (slot < this.#floor || isFork || isPassed) {
      this.counts.duplicates++
      return null
    }
    if (found !== undefined) return found
    if (slot > (this.#deps.slotLimit?.() ?? slot)) {
      this.droppedAbove++
      return null
    }
    const bankId = this.#deps.bankIds?.(slot) ?? slot * bankIdsOfSlot
    const tracked = new TrackedSlot(slot, bankId, this.#streams.connectionOf(stream))
    this.#slots.set(slot, tracked)
    if (this.newestSlot === null || slot > this.newestSlot) this.newestSlot = slot
    if (this.#gapFrom !== null) {
      this.counts.gapSlots += Math.max(0, slot - this.#gapFrom)
      this.#gapFrom = null
    }
    if (this.#slots.size > this.#hub.slotTime.slotsIn(slotsMsMax, slotsMax))
      this.#slots.delete(this.#slots.keys().next().value!)
    return tracked
  }

  /** A node that is behind may begin before the first slot of the others: that is left out. */
  #trackContent({ slot, kind }: SolanaUpdate, stream: number): TrackedSlot | null {
    const tracked = slot < this.#firstContent ? null : this.#track(slot, stream)
    if (tracked === null || this.#streams.isPart(tracked, stream, kind)) return null
    if (this.#firstContent < 0) this.#firstContent = slot
    return tracked
  }

  #tryComplete(tracked: TrackedSlot, view: SlotView): void {
    const { meta } = view
    const items = meta === null ? null : view.itemsOf(meta, this.#streams.isMerged)
    if (meta !== null && items !== null) this.#complete(tracked, view, meta, items)
  }

  #complete(
    tracked: TrackedSlot,
    view: SlotView,
    meta: BlockMetaUpdate,
    items: UpdateList<SlotItem>,
  ): void {
    // Several streams or banks sent it: confirmed and finalized get this one's version.
    const isPart = items.length !== view.items.length
    const isMixed = isPart || view.firsts !== tracked.published || view.hasReplacedBank
    const isRestated = isMixed && !tracked.hasStatus(slotStatus.confirmed)
    if (isRestated) this.#hub.restate(tracked.slot, items)
    // Of a slot that was dead on another connection everything is retracted.
    const isWrong = tracked.published !== items.length || tracked.hasStatus(slotStatus.dead)
    if (isRestated && isWrong) {
      this.#retractions.retractAllBut(tracked, [...items])
      tracked.restate(view, items)
    }
    this.#content(tracked, tracked.blockOf(meta, items, isMixed))
    tracked.isComplete = true
    this.#confirmations.completed(meta)
    if (view.hasReplacedBank) tracked.provisional = meta
    this.#close(tracked, view, meta)
    if (isRestated && isWrong) this.#retractions.restateAfter(tracked, this.#slots)
    this.#newestComplete = Math.max(this.#newestComplete ?? tracked.slot, tracked.slot)
  }

  /** Missing items will not come any more: publishes the meta without the block. */
  #giveUp(tracked: TrackedSlot): void {
    const { bank } = tracked
    const view = tracked.views.find((one) => one.bank === bank && one.meta !== null)
    const meta = view?.meta ?? null
    const union = tracked.wholeUnion()
    if (view !== undefined && meta !== null && union !== null) {
      this.#complete(tracked, view, meta, union)
      return
    }
    // Late items of the bank before cannot be told from its own: neither may be confirmed.
    const isEmptied = tracked.banks.length > 1 && !tracked.hasStatus(slotStatus.confirmed)
    if (isEmptied) {
      this.#hub.restate(tracked.slot, [])
      this.#retractions.retractAllBut(tracked, [])
    }
    if (view !== undefined && meta !== null)
      this.#close(tracked, view, this.#confirmations.incomplete(meta))
    else this.#release(tracked)
    if (isEmptied) this.#retractions.restateAfter(tracked, this.#slots)
  }

  #close(tracked: TrackedSlot, view: SlotView, meta: BlockMetaUpdate): void {
    this.#hub.slotTime.observe(meta.slot, meta.createdAtMs)
    this.#content(tracked, withBank(tracked, meta))
    tracked.close(view, meta)
    tracked.bank.blockhash = meta.blockhash
    for (const other of tracked.views) {
      if (other.bank !== tracked.bank || other.blockhash === null) continue
      if (other.blockhash !== meta.blockhash) this.#divide(tracked, other)
      else if (tracked.provisional === null) other.drop()
    }
    // Accounts precede their transactions: nothing of a complete block is missing.
    if (tracked.provisional === null) tracked.names = null
    // Where nothing is confirmed; slots that are skipped do not matter.
    const old = this.#slots.get(tracked.slot - this.#keptSlots)
    if (old !== undefined && old.blockhash !== null) old.dropContent()
    // Confirmed before any of it came: no status follows that would publish it.
    this.#hub.catchUp(tracked.slot, tracked.reached)
    this.#release(tracked)
  }

  #release(tracked: TrackedSlot): void {
    for (const update of tracked.takeDeferred()) {
      tracked.hasPublished = true
      publishUpdate(this.#hub, withBank(tracked, update))
    }
  }

  /** An item of a block that was published: late, or sent by another connection, too. */
  #itemAfter(tracked: TrackedSlot, view: SlotView, update: SlotItem): void {
    const isConfirmed = tracked.hasStatus(slotStatus.confirmed)
    // A whole block has no further item: the next meta will tell of which one it is.
    const isWhole = tracked.isComplete && tracked.provisional === null
    let isNew = view === tracked.publisher && !isWhole
    if (isNew && tracked.names !== null)
      isNew = tracked.names.arrive(update, view.stream, false) === 'first'
    // The block that they make may be another one, without a CREATED_BANK that tells it.
    if (!isConfirmed) view.add(update)
    if (isNew) {
      tracked.published++
      this.#content(tracked, update, view)
    } else this.counts.duplicates++
    if (tracked.provisional !== null && update.kind !== 'account')
      this.#recomplete(tracked, view, tracked.provisional)
  }

  /**
   * A transaction or entry after the last one of its block: one before it was of the bank that was
   * replaced. The block at processed was a mixture; what is confirmed is the last bank's.
   */
  #recomplete(tracked: TrackedSlot, view: SlotView, meta: BlockMetaUpdate): void {
    const isLess = tracked.views.some((other) => other.isAheadOf(view))
    const items = view.blockhash === meta.blockhash && !isLess ? lastItems(view.items, meta) : null
    if (items === null) return
    if (view !== tracked.publisher) this.#arriveAll(tracked, view, items)
    const restated = [...items, tracked.blockOf(meta, items, true), meta]
    this.#hub.restate(tracked.slot, restated)
    if (tracked.published !== items.length) {
      this.#retractions.retractAllBut(tracked, restated)
      tracked.restate(view, items)
      this.#retractions.restateAfter(tracked, this.#slots)
    }
    if (view.hasReplacedBank) return
    tracked.provisional = null
    tracked.publisher = view
    view.drop()
  }

  #metaAfter(tracked: TrackedSlot, view: SlotView): void {
    if (tracked.blockhash === view.blockhash) {
      this.counts.duplicates++
      if (tracked.provisional === null) view.drop()
      else this.#recomplete(tracked, view, tracked.provisional)
      return
    }
    this.counts.rewrittenBlocks++
    // A confirmed block is never replaced.
    if (tracked.hasStatus(slotStatus.confirmed)) view.drop()
    else {
      this.#divide(tracked, view)
      this.#switchUnlessHeld(tracked, view)
    }
  }

  /** A node declares its bank dead; it is not for those that another stream still sends. */
  #die(tracked: TrackedSlot, view: SlotView | null, update: SlotUpdate): void {
    // It replays a bank before: a complete one does not die.
    const isOther = tracked.isComplete && view !== tracked.publisher
    if (!isOther) view?.leave()
    if (!isOther && !this.#streams.isHeld(tracked, tracked.bank, view)) {
      this.#publish(tracked, update)
      return
    }
    this.counts.duplicates++
    if (view === null) return
    this.#divide(tracked, view)
    view.leave()
  }

  #compare(tracked: TrackedSlot, stream: number): void {
    const view = this.#streams.knownView(tracked, stream)
    if (view === null || view.isDisputed || view.blockhash === null) return
    if (!tracked.isComplete || !tracked.hasStatus(slotStatus.confirmed)) return
    if (view.blockhash === tracked.blockhash) return
    view.isDisputed = true
    this.#deps.disputed?.(view.stream, tracked.slot, view.blockhash)
  }

  #finalize(tracked: TrackedSlot, update: SlotUpdate, confirmed: readonly TrackedSlot[]): void {
    const line = new Set(confirmed)
    // Older confirmed slots are final too, even if a gap hides the parent links between them.
    for (const one of this.#slots.values())
      if (one.slot < tracked.slot && one.isConfirmedOnly) line.add(one)
    // Before: what is below a finalized slot is settled.
    this.#abandonForks(tracked.slot, line)
    for (const one of [...line].sort((a, b) => a.slot - b.slot)) {
      if (!one.hasStatus(slotStatus.confirmed))
        this.#reach(one, derived(one, slotStatus.confirmed, update))
      this.#reach(one, one === tracked ? update : derived(one, slotStatus.finalized, update))
    }
    this.#newestFinalized = Math.max(this.#newestFinalized, tracked.slot)
    this.#floor = Math.max(this.#floor, tracked.slot - this.#keptSlots)
    for (const slot of this.#slots.keys()) if (slot < this.#floor) this.#slots.delete(slot)
  }

  #abandonForks(below: number, line: ReadonlySet<TrackedSlot>): void {
    for (const tracked of this.#slots.values()) {
      const isOnLine = line.has(tracked) || tracked.hasStatus(slotStatus.finalized)
      if (tracked.slot >= below || isOnLine) continue
      this.#retractions.retract(tracked, reasonToLose(tracked))
      this.#hub.abandon(tracked.slot)
      tracked.isLost = true
    }
  }

  #reach(tracked: TrackedSlot, update: SlotUpdate): void {
    if (tracked.isOpen) this.#giveUp(tracked)
    this.#release(tracked)
    // Left out for a block that was rooted early, or still to come: never after what follows it.
    if (tracked.blockhash !== null && !tracked.hasStatus(slotStatus.processed))
      this.#publish(tracked, derived(tracked, slotStatus.processed, update))
    this.#publish(tracked, update)
  }

  #publish(tracked: TrackedSlot, update: SlotUpdate): void {
    const sent = withBank(tracked, update)
    tracked.statuses |= statusBit(update.status)
    if (update.status === slotStatus.dead) {
      tracked.isLost = true
      this.#retractions.retract(tracked, 'dead')
    } else if ((statusBit(update.status) & bankStatuses) !== 0) tracked.hasPublished = true
    if (update.status === slotStatus.confirmed) {
      this.#newestConfirmed = Math.max(this.#newestConfirmed, tracked.slot)
      if (tracked.blockhash !== null) tracked.dropContent()
    }
    publishUpdate(this.#hub, sent)
  }
}
