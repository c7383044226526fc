// What nodes have confirmed, in order, until its content has come. A node sends content and
// statuses from threads of their own: under load transactions of a slot follow its confirmation,
// and a block that was confirmed before would never have them. So a confirmation waits for the
// blocks that it confirms, and those after it wait for it.
import { type SlotUpdate, slotStatus } from '../../chain/solana/updates.ts'
import type { SolanaHub } from '../geyser/hub.ts'
import type { OpenStreams } from './open-streams.ts'
import type { SlotView, TrackedSlot } from './tracked-slot.ts'

/** A slot that a status confirms, and what its stream has of it where that is to be published. */
type Confirmed = readonly [TrackedSlot, SlotView | null]

export interface Confirmation {
  /** Confirmed or finalized. */
  readonly update: SlotUpdate
  readonly stream: number
}

/** What was confirmed longer ago is published without the content that is missing. */
const timeoutMs = 2_000
const timeoutSlots = 5
/** A stream may send the same ones again and again. */
const waitingMax = 64

export class Confirmations {
  readonly #slots: ReadonlyMap<number, TrackedSlot>
  readonly #streams: OpenStreams
  readonly #hub: SolanaHub
  #waiting: Confirmation[] = []
  #newestSlot = -1
  /** Blocks come whole: not known at first, nor after one that did not. */
  #hasWholeBlocks = false

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
  completed(): void {
    this.#hasWholeBlocks = true
  }

  /** A connection has ended: what it has confirmed comes again, by its replay or from others. */
  forget(stream: number): void {
    this.#waiting = this.#waiting.filter((one) => one.stream !== stream)
  }

  /** The next one with all that it confirms, oldest first; null while that is to be waited for. */
  next(): (Confirmation & { readonly line: readonly Confirmed[] }) | null {
    const [first] = this.#waiting
    if (first === undefined) return null
    const line = this.#lineTo(first)
    if (line.some(([tracked]) => this.#isAwaited(tracked, first.stream))) {
      const { slot } = first.update
      const lastSlot = slot + this.#hub.slotTime.slotsIn(timeoutMs, timeoutSlots)
      const isLate = this.#newestSlot >= lastSlot || this.#waiting.length > waitingMax
      if (this.#hasWholeBlocks && !isLate) {
        // Of which bank the others send, a stream that has none of it says nothing.
        for (const [tracked] of line)
          if (this.#streams.knownView(tracked, first.stream) !== null) tracked.isDecided = true
        return null
      }
      this.#hasWholeBlocks = false
    }
    this.#waiting.shift()
    return { ...first, line }
  }

  /** The slot and its ancestors that lack the status; empty where it has it. */
  #lineTo({ update: { slot, status }, stream }: Confirmation): Confirmed[] {
    const line: Confirmed[] = []
    let at = this.#slots.get(slot)
    if (at?.hasStatus(status)) return line
    while (at !== undefined) {
      const elected = this.#elected(at, stream)
      line.unshift([at, elected])
      const parent: number | null = elected?.meta?.parentSlot ?? at.parent
      at = parent !== null && parent < at.slot ? this.#slots.get(parent) : undefined
      if (at?.hasStatus(status) || at?.hasStatus(slotStatus.dead)) break
    }
    return line
  }

  /** A stream has confirmed the slot: the bank that it has is the one. Null: it is published. */
  #elected(tracked: TrackedSlot, stream: number): SlotView | null {
    const view = this.#streams.knownView(tracked, stream)
    if (view === null || view.bank === tracked.bank || view.meta === null) return null
    const isWhole = view.itemsOf(view.meta, this.#streams.isMerged) !== null
    return isWhole && !tracked.hasStatus(slotStatus.confirmed) ? view : null
  }

  /** Content of what the stream has confirmed may still come. */
  #isAwaited(tracked: TrackedSlot, stream: number): boolean {
    if (tracked.hasStatus(slotStatus.confirmed)) return false
    const view = this.#streams.knownView(tracked, stream)
    const hasSome = view?.hasContent === true && !view.hasLeft
    if (hasSome && view.bank !== tracked.bank) return this.#elected(tracked, stream) === null
    // Whether what the stream has is of the block that is published: only its meta tells.
    if (hasSome && tracked.isComplete && view.blockhash === null) return true
    // Items of a bank that was replaced may have been taken for those that are still to come.
    const { provisional } = tracked
    if (provisional !== null) return this.#streams.isBusyWith(tracked, provisional)
    if (tracked.isOpen) return true
    if (tracked.blockhash !== null || tracked.isLost) return false
    if (tracked.isCreated && this.#streams.isHeld(tracked, tracked.bank)) return true
    // Nothing of it came, as the stream began after it: one that is behind may send it.
    const isAfterStart = tracked.slot >= (this.#hub.firstContent ?? Number.POSITIVE_INFINITY)
    return isAfterStart && this.#streams.isOneBehind(tracked.slot, stream)
  }
}
