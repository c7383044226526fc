// The block of a slot while its items are published at confirmed or finalized: it follows them in
// the order of updates, but is known by then.
import type { Commitment } from '../../base/commitment.ts'
import { type BlockMetaUpdate, type SolanaUpdate, slotStatus } from './updates.ts'

/** Late items of a slot find its block again; a slot has few of them, soon. */
const slotsMax = 64

export interface KnownBlock {
  readonly meta: BlockMetaUpdate
  /** It was published with all its items, all of which are its own. */
  readonly isWhole: boolean
}

/** The updates that are kept themselves, so statuses, blocks and metas, in their order. */
export type KeptUpdates = (slot: number) => Iterable<SolanaUpdate>

export class KnownBlocks {
  readonly #commitment: Commitment
  readonly #kept: KeptUpdates
  readonly #blocks = new Map<number, KnownBlock>()
  #noted = -1

  constructor(commitment: Commitment, kept: KeptUpdates) {
    this.#commitment = commitment
    this.#kept = kept
  }

  /** Null where it is not known: at processed, and where its meta came after it was confirmed. */
  of(slot: number): KnownBlock | null {
    const known = this.#blocks.get(slot) ?? this.#find(slot)
    if (known === null || this.#blocks.has(slot)) return known
    this.#blocks.set(slot, known)
    if (this.#blocks.size > slotsMax) this.#blocks.delete(this.#blocks.keys().next().value!)
    return known
  }

  /** To be called while the slot's updates are kept, if `of` is asked later. */
  note(slot: number): void {
    if (slot !== this.#noted) this.of(slot)
    this.#noted = slot
  }

  /** Unix time in seconds. */
  timeOf(slot: number): number | null {
    return this.of(slot)?.meta.blockTime ?? null
  }

  /** Of a slot whose meta is published, at any commitment: whether a block was, too. */
  isWhole(slot: number): boolean {
    for (const update of this.#kept(slot))
      if (update.kind === 'block' && update.slot === slot) return update.hasVoid !== true
    return this.#blocks.get(slot)?.isWhole === true
  }

  restart(): void {
    this.#blocks.clear()
    this.#noted = -1
  }

  #find(slot: number): KnownBlock | null {
    if (this.#commitment === slotStatus.processed) return null
    let meta: BlockMetaUpdate | null = null
    let isWhole = false
    for (const update of this.#kept(slot)) {
      if (update.slot !== slot) continue
      if (update.kind === 'block') isWhole = update.hasVoid !== true
      else if (update.kind === 'blockMeta') meta = update
      // What comes after it is late: it was not known when the items were published.
      else if (update.kind === 'slot' && update.status === this.#commitment) break
    }
    return meta === null ? null : { meta, isWhole }
  }
}
