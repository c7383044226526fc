// One slot while a node tells it: its parts, what waits for them, what was told. Thread: main.
// Owned by slot-book.ts, which decides; this only keeps.
import type { BlockMetaUpdate, SlotStatus, SlotUpdate } from '../solana/updates.ts'
import { type SlotPart, ToldBefore } from './told-before.ts'

export class KnownSlot {
  readonly slot: number
  parent: number | null = null
  /** Statuses that were told, a bit each. */
  told = 0
  /** The connection that its parts come from. */
  run: number
  /** The connection that told the whole block once more. */
  checkedRun = -1
  parts: SlotPart[] = []
  transactions = 0
  entries = 0
  /** Waits for the parts of its block. */
  meta: BlockMetaUpdate | null = null
  /** What an earlier connection told of it; null when there was none. */
  toldBefore: ToldBefore | null = null
  /** Of its block, once that went out; null before. */
  blockhash: string | null = null
  /** Parts that another connection tells of a block that went out. */
  again: SlotPart[] = []
  /** Parts are missing that nobody will tell. */
  isLost = false
  #held: SlotUpdate[] = []

  constructor(slot: number, run: number) {
    this.slot = slot
    this.run = run
  }

  /** Begun, and its block is still to come. */
  get isOpen(): boolean {
    if (this.blockhash !== null || this.isLost) return false
    return this.parts.length > 0 || this.meta !== null || this.toldBefore !== null
  }

  wasTold(status: SlotStatus): boolean {
    return (this.told & tellBit(status)) !== 0
  }

  add(part: SlotPart): void {
    this.parts.push(part)
    if (part.kind === 'transaction') this.transactions++
    else if (part.kind === 'entry') this.entries++
  }

  /** A status that must not overtake the block. */
  hold(update: SlotUpdate): void {
    this.told |= tellBit(update.status)
    this.#held.push(update)
  }

  takeHeld(): readonly SlotUpdate[] {
    const held = this.#held
    this.#held = []
    return held
  }

  /** Another connection tells it from its start. */
  beginAgain(run: number): void {
    this.run = run
    this.toldBefore = new ToldBefore(this.parts, this.toldBefore)
    this.#empty()
  }

  /** The block that went out is no more. */
  reopen(run: number): void {
    this.run = run
    this.blockhash = null
    this.toldBefore = null
    this.#empty()
  }

  close(meta: BlockMetaUpdate): void {
    this.blockhash = meta.blockhash
    this.toldBefore = null
    this.#empty()
  }

  #empty(): void {
    this.parts = []
    this.transactions = 0
    this.entries = 0
    this.meta = null
  }
}

export function tellBit(status: SlotStatus): number {
  return 1 << status
}

/** Whether every part of the block is there. */
export function isWhole(known: KnownSlot, meta: BlockMetaUpdate): boolean {
  return known.transactions >= meta.executedTransactionCount && known.entries >= meta.entriesCount
}
