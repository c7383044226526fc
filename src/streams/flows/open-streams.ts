// The open streams of a set, by their numbers, which banks they have, and what is counted and told
// of them.
import { type BlockMetaUpdate, type SolanaUpdate, slotStatus } from '../../chain/solana/updates.ts'
import type { Bank, SlotView, TrackedSlot } from './tracked-slot.ts'

export interface TrackerDeps {
  /** The highest slot that a node can have reached; those above are dropped. Default: infinite. */
  slotLimit?(): number
  /** The first id for the banks of a slot; those after it are theirs, too. Default: 16 a slot. */
  bankIds?(slot: number): number
  /** A stream was the first to send an item. */
  arrived?(stream: number): void
  /** A stream confirmed a slot, and its block is not the one that was confirmed before. */
  disputed?(stream: number, slot: number, blockhash: string): void
}

/** Counted over all connections. */
export class SlotCounts {
  /** Updates dropped because they were published before. */
  duplicates = 0
  /** Slots that no node could replay after a reconnect. */
  gapSlots = 0
  /** Blocks published without some of their items. */
  incompleteBlocks = 0
  /** Blocks that a node sent with another blockhash than the published one. */
  rewrittenBlocks = 0
  /** Banks that a node replaced by another one of the same slot. */
  replacedBanks = 0
  /** How often the chain began anew. */
  restarts = 0
}

interface OpenStream {
  readonly connection: number
  /** Of its first content; -1 with a replay. */
  firstSlot: number | null
  /** It began without a replay inside of slots up to this. */
  partUpTo: number
  /** Slots that it sends from now on are whole, as it has sent the begin or the end of another. */
  isBegun: boolean
  /** The newest slots of which it has sent some. */
  readonly newest: { transaction: number; entry: number }
}

export class OpenStreams {
  readonly counts: SlotCounts
  readonly #open = new Map<number, OpenStream>()
  /** Number of the newest connection; each reconnect increments it. */
  #connection = 0

  constructor(counts: SlotCounts) {
    this.counts = counts
  }

  get size(): number {
    return this.#open.size
  }

  /** Several streams are open: each item has to be told from those of the others. */
  get isMerged(): boolean {
    return this.#open.size > 1
  }

  /** A new connection of a stream; returns its number. */
  open(stream: number, hasReplay: boolean): number {
    const connection = ++this.#connection
    const firstSlot = hasReplay ? -1 : null
    const newest = { transaction: -1, entry: -1 }
    this.#open.set(stream, { connection, firstSlot, partUpTo: -1, isBegun: hasReplay, newest })
    return connection
  }

  close(stream: number): boolean {
    return this.#open.delete(stream)
  }

  /** Number of the connection; 0 while there is none. */
  connectionOf(stream: number): number {
    return this.#open.get(stream)?.connection ?? 0
  }

  /** What the connection has sent of the slot; null before its first item. */
  knownView(tracked: TrackedSlot, stream: number): SlotView | null {
    return tracked.viewOf(stream, this.connectionOf(stream))
  }

  /** `isCreation`: it sends the creation of a bank. */
  viewOf(tracked: TrackedSlot, stream: number, isCreation = false): SlotView {
    const open = this.#open.get(stream)
    if (isCreation && open !== undefined) open.isBegun = true
    const known = this.knownView(tracked, stream)
    if (known !== null) return known
    const view = tracked.addView(stream, this.connectionOf(stream))
    view.isPart = tracked.slot <= (open?.partUpTo ?? -1)
    return view
  }

  has(view: SlotView): boolean {
    return this.connectionOf(view.stream) === view.connection
  }

  /** Whether an open stream has the bank; another one than that of the view. */
  isHeld({ views }: TrackedSlot, bank: Bank, except: SlotView | null = null): boolean {
    return views.some((view) => view !== except && view.bank === bank && this.has(view))
  }

  /** Whether another stream has sent nothing of the slot and those after it. */
  isOneBehind(slot: number, stream: number): boolean {
    const isBehind = ({ transaction, entry }: OpenStream['newest']) =>
      transaction < slot && entry < slot
    return [...this.#open].some(([other, { newest }]) => other !== stream && isBehind(newest))
  }

  /** A stream that has the published block has not sent all of it: a node sends a kind in order. */
  isBusyWith({ slot, views }: TrackedSlot, meta: BlockMetaUpdate): boolean {
    const { blockhash, executedTransactionCount, entriesCount } = meta
    const whole = views.filter((view) => this.has(view) && view.blockhash === blockhash)
    const isPast = ({ stream }: SlotView) => {
      const { transaction, entry } = this.#open.get(stream)!.newest
      if (executedTransactionCount > 0 && transaction <= slot) return false
      return entriesCount === 0 || entry > slot
    }
    return whole.length > 0 && !whole.some(isPast)
  }

  /**
   * Whether a connection without a replay began inside of the slot: what it sends of it is no
   * block, and left out. A bank whose creation was sent is whole.
   */
  isPart(tracked: TrackedSlot, stream: number, kind: SolanaUpdate['kind']): boolean {
    const open = this.#open.get(stream)
    if (open === undefined) return false
    const { slot } = tracked
    if ((kind === 'transaction' || kind === 'entry') && slot > open.newest[kind])
      open.newest[kind] = slot
    // Items of two slots interleave: it may have begun inside of both.
    const isInside = open.firstSlot === null || (!open.isBegun && slot > open.partUpTo)
    open.firstSlot ??= slot
    if (isInside) open.partUpTo = slot
    if (kind === 'blockMeta' && slot > open.firstSlot) open.isBegun = true
    if (tracked.hasStatus(slotStatus.createdBank)) return false
    if (slot > open.partUpTo) return false
    // Whether the connection that was the first to send something of it began inside of it.
    const first = [...this.#open.values()].find((one) => one.connection === tracked.firstConnection)
    const isAfterFirst = first !== undefined && first.firstSlot !== null && slot > first.partUpTo
    if (isAfterFirst || (first === undefined && tracked.hasPublished)) return false
    if (isInside && open.connection > 1 && !this.isMerged) this.counts.gapSlots++
    return true
  }
}
