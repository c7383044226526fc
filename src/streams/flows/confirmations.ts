// What nodes have confirmed, in order, until its content has come. A node sends content and
// statuses from threads of their own: under load transactions of a slot follow its confirmation,
// and a block that was confirmed before would never have them. So a confirmation waits for the
// blocks that it confirms, and those after it wait for it.
//
// Which bank of a slot is confirmed, the confirmed block after it says, which names its blockhash;
// before that one, the stream that confirms the slot. A stream that has sent none of it, as it came
// back without a replay, does not say which of several it is: a later confirmation does.
import { type BlockMetaUpdate, type SlotUpdate, slotStatus } from '../../chain/solana/updates.ts'
import type { SolanaHub } from '../geyser/hub.ts'
import type { OpenStreams } from './open-streams.ts'
import { SlotView, type TrackedSlot } from './tracked-slot.ts'

/** A slot that a status confirms. */
interface Confirmed {
  readonly tracked: TrackedSlot
  /** What a stream has of it, where that is to be published; null: what is. */
  readonly elected: SlotView | null
  /** Its blockhash, as the confirmed block after it or its stream says; null while unknown. */
  readonly named: string | null
}

export interface Confirmation {
  /** Confirmed or finalized. */
  readonly update: SlotUpdate
  readonly stream: number
}

/** What was confirmed longer ago is published without the content that is missing. */
const timeoutMs = 2_000
const timeoutSlots = 5
/** More in a row are of nodes that send no whole blocks: what they leave out never comes. */
const incompleteMax = 4
/** A stream may send the same ones again and again. */
const waitingMax = 64

export class Confirmations {
  readonly #slots: ReadonlyMap<number, TrackedSlot>
  readonly #streams: OpenStreams
  readonly #hub: SolanaHub
  #waiting: Confirmation[] = []
  #newestSlot = -1
  /** Blocks in a row. */
  #incomplete = 0
  /** Blocks come whole: not known at first, nor after one that did not. */
  #hasWholeBlocks = false
  /** They name the blockhashes of their parents: not known at first, nor after one that did not. */
  #hasParentNames = false

  constructor(slots: ReadonlyMap<number, TrackedSlot>, streams: OpenStreams, hub: SolanaHub) {
    this.#slots = slots
    this.#streams = streams
    this.#hub = hub
  }

  add(confirmation: Confirmation): void {
    this.#waiting.push(confirmation)
    this.#newestSlot = Math.max(this.#newestSlot, confirmation.update.slot)
  }

  /** A block has come whole. */
  completed({ parentSlot, parentBlockhash }: BlockMetaUpdate): void {
    this.#hasWholeBlocks = true
    this.#incomplete = 0
    if (this.#slots.get(parentSlot)?.blockhash === parentBlockhash) this.#hasParentNames = true
  }

  /** The meta of a block that is published without some of its items. */
  incomplete(meta: BlockMetaUpdate): BlockMetaUpdate {
    this.#streams.counts.incompleteBlocks++
    return ++this.#incomplete > incompleteMax ? meta : { ...meta, isIncomplete: true }
  }

  /** A connection has ended: what it has confirmed comes again, by its replay or from others. */
  forget(stream: number): void {
    this.#waiting = this.#waiting.filter((one) => one.stream !== stream)
  }

  /** The next one with all that it confirms, oldest first; null while that is to be waited for. */
  next(): (Confirmation & { readonly line: readonly Confirmed[] }) | null {
    const first = this.#waiting.find((one) => this.#isLate(one) || !this.#isUndecided(one))
    if (first === undefined) return null
    const line = this.#lineTo(first)
    const isOther = line.some(hasOtherBlock)
    const isAwaited = isOther || line.some((one) => this.#isAwaited(one, first.stream))
    if (isAwaited && (isOther || this.#hasWholeBlocks) && !this.#isLate(first)) {
      // Of which bank the others send, a stream that has none of it says nothing.
      for (const { tracked } of line)
        if (this.#streams.knownView(tracked, first.stream) !== null) tracked.isDecided = true
      return null
    }
    if (isAwaited) this.#hasWholeBlocks = false
    if (isOther) this.#hasParentNames = false
    this.#waiting.splice(this.#waiting.indexOf(first), 1)
    return { ...first, line: line.map((one) => (hasOtherBlock(one) ? this.#without(one) : one)) }
  }

  #isLate({ update: { slot } }: Confirmation): boolean {
    const lastSlot = slot + this.#hub.slotTime.slotsIn(timeoutMs, timeoutSlots)
    return this.#newestSlot >= lastSlot || this.#waiting.length > waitingMax
  }

  /** The slot and its ancestors that lack the status; empty where it has it. */
  #lineTo({ update: { slot, status }, stream }: Confirmation): Confirmed[] {
    const line: Confirmed[] = []
    let at = this.#slots.get(slot)
    let named: string | null = null
    if (at?.hasStatus(status)) return line
    while (at !== undefined) {
      const own = this.#streams.knownView(at, stream)
      if (own?.hasLeft === false) named ??= own.blockhash
      const elected = this.#elected(at, own, named)
      line.unshift({ tracked: at, elected, named })
      const child = at
      const parent: number | null = elected?.meta?.parentSlot ?? at.parent
      at = parent !== null && parent < at.slot ? this.#slots.get(parent) : undefined
      if (at?.hasStatus(status) || at?.hasStatus(slotStatus.dead)) break
      named = at === undefined ? null : this.#nameIn(child, elected, at)
    }
    return line
  }

  /** The blockhash by which a block names the one before it; null where it says nothing. */
  #nameIn(child: TrackedSlot, elected: SlotView | null, { publisher, blockhash }: TrackedSlot) {
    const named = elected?.meta?.parentBlockhash ?? child.parentBlockhash
    // A node knows its own banks, whatever its blocks name. Empty where it leaves that out.
    const isOfOther = publisher?.connection !== (elected ?? child.publisher)?.connection
    return named === blockhash || (this.#hasParentNames && isOfOther) ? named || null : null
  }

  /** The stream's own block where it is the confirmed one, or another's. Null: it is published. */
  #elected(tracked: TrackedSlot, own: SlotView | null, named: string | null): SlotView | null {
    if (tracked.hasStatus(slotStatus.confirmed) || tracked.blockhash === named) return null
    const isIt = (view: SlotView) => {
      const { bank, meta, blockhash } = view
      if (bank === tracked.bank || meta === null || blockhash !== named) return false
      return view.itemsOf(meta, this.#streams.isMerged) !== null
    }
    return own !== null && isIt(own) ? own : (tracked.views.find(isIt) ?? null)
  }

  /** Its stream has sent nothing of a slot that has other banks than the published one, or may. */
  #isUndecided(one: Confirmation): boolean {
    return this.#lineTo(one).some(({ tracked, named }) => {
      if (named !== null || tracked.hasStatus(slotStatus.confirmed)) return false
      const own = this.#streams.knownView(tracked, one.stream)
      if (own !== null && (own.hasContent || own.blockhash !== null)) return false
      const { slot, views, bank, blockhash } = tracked
      if (views.some((view) => view.bank !== bank && view.blockhash !== null && !view.hasLeft))
        return true
      if (blockhash === null) return false
      const children = [...this.#slots.values()].filter(({ parent }) => parent === slot)
      const names = children.map((child) => this.#nameIn(child, null, tracked))
      if (names.some((name) => name !== null && name !== blockhash)) return true
      // What its stream has published before may not be what it has now.
      const isHeld = names.includes(blockhash) || this.#streams.isHeld(tracked, bank)
      return !isHeld && this.#streams.isOneBehind(slot, one.stream)
    })
  }

  /** Content of what the stream has confirmed may still come. */
  #isAwaited({ tracked, elected, named }: Confirmed, stream: number): boolean {
    if (tracked.hasStatus(slotStatus.confirmed) || elected !== null) return false
    const view = this.#streams.knownView(tracked, stream)
    const isNamed = named !== null && tracked.blockhash === named
    if (!isNamed && view?.hasContent === true && !view.hasLeft) {
      if (view.bank !== tracked.bank) return true
      // Whether what the stream has is of the block that is published: only its meta tells.
      if (tracked.isComplete && view.blockhash === null) return true
    }
    // Items of a bank that was replaced may have been taken for those that are still to come.
    const { provisional } = tracked
    if (provisional !== null) return this.#streams.isBusyWith(tracked, provisional)
    return this.isToCome(tracked, stream)
  }

  /** Whether the content of a slot of which the stream sends a status may follow it. */
  isToCome(tracked: TrackedSlot, stream: number): boolean {
    if (tracked.isOpen) return true
    if (tracked.blockhash !== null || tracked.isLost) return false
    if (tracked.isCreated && this.#streams.isHeld(tracked, tracked.bank)) return true
    // Nothing of it came, as the stream began after it: one that is behind may send it.
    const isAfterStart = tracked.slot >= (this.#hub.firstContent ?? 0)
    return isAfterStart && this.#streams.isOneBehind(tracked.slot, stream)
  }

  /** The block that is published is left out: the confirmed one did not come. */
  #without({ tracked, named }: Confirmed): Confirmed {
    this.#streams.counts.gapSlots++
    const known = tracked.banks.find(({ blockhash }) => blockhash === named)
    const bank = known ?? tracked.addBank(tracked.parent)
    bank.blockhash = named
    return { tracked, named, elected: new SlotView(0, 0, bank) }
  }
}

function hasOtherBlock({ tracked, elected, named }: Confirmed): boolean {
  const { blockhash } = tracked
  const isOther = named !== null && blockhash !== null && blockhash !== named
  return isOther && elected === null && !tracked.hasStatus(slotStatus.confirmed)
}
