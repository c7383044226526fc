// Blocks and transactions of the chain: recent ones in memory, all of them in the archive. Thread:
// main of the devnode. A block leaves the memory only when the archive can be read up to it.
import type { Archive } from './archive.ts'
import type { Block } from './block.ts'
import { Blocks, type LedgerBounds } from './blocks.ts'
import { History, type Indexed } from './history.ts'
import { isOlder, type Position, type StoredTransaction } from './stored-transaction.ts'

export class BlockHistory {
  readonly recent: Blocks
  readonly #index = new History()
  readonly #archive: Archive | null

  /** Without an archive there is what fits into the bounds of memory. */
  constructor(bounds: LedgerBounds, archive: Archive | null) {
    this.recent = new Blocks(bounds)
    this.#archive = archive
  }

  get firstSlot(): number {
    return Math.min(this.recent.firstSlot, this.#archive?.firstSlot ?? Number.POSITIVE_INFINITY)
  }

  /** A transaction of the open slot, or of a block that is appended next. */
  add(transaction: StoredTransaction, known?: Indexed): void {
    this.#index.add(transaction, known)
  }

  append(block: Block): void {
    this.#archive?.append(block)
    const keptFrom = (this.#archive?.readableSlot ?? Number.POSITIVE_INFINITY) + 1
    for (const { stored } of this.recent.append(block, keptFrom)) this.#index.drop(stored)
  }

  block(slot: number): Block | null {
    return this.recent.get(slot) ?? this.#archive?.block(slot) ?? null
  }

  has(slot: number): boolean {
    return this.recent.get(slot) !== null || (this.#archive?.has(slot) ?? false)
  }

  /** Slots of blocks from `from` to `to`, both included; at most `limit`. */
  slots(range: { readonly from: number; readonly to: number; readonly limit: number }): number[] {
    const { from, to, limit } = range
    const older = { from, to: Math.min(to, this.recent.firstSlot - 1), limit }
    const slots = older.to < from ? [] : (this.#archive?.slots(older) ?? [])
    return [...slots, ...this.recent.slots({ from, to, limit: limit - slots.length })]
  }

  /** A transaction that is in memory: long enough to recognise a duplicate. */
  findRecent(signature: Uint8Array): StoredTransaction | null {
    return this.#index.find(signature)
  }

  find(signature: Uint8Array): StoredTransaction | null {
    return this.#index.find(signature) ?? this.#archive?.find(signature) ?? null
  }

  /**
   * Transactions of an address up to a slot, newest first. `before` and `until` are signatures,
   * both excluded; an unknown `before` gives none.
   */
  page(
    address: Uint8Array,
    range: {
      readonly limit: number
      readonly before: Uint8Array | null
      readonly until: Uint8Array | null
      readonly newestSlot: number
    },
  ): StoredTransaction[] {
    const before = range.before === null ? null : this.find(range.before)
    if (range.before !== null && before === null) return []
    const until = range.until === null ? null : this.find(range.until)
    const found: StoredTransaction[] = []
    for (const transaction of this.#backwards(address, before)) {
      // Both signatures may be those of other addresses: their positions count.
      if (found.length >= range.limit || (until !== null && !isOlder(until, transaction))) break
      if (transaction.slot <= range.newestSlot) found.push(transaction)
    }
    return found
  }

  *#backwards(address: Uint8Array, before: Position | null): IterableIterator<StoredTransaction> {
    const border = { slot: this.recent.firstSlot, index: 0 }
    const isArchived = before !== null && isOlder(before, border)
    if (!isArchived)
      for (const transaction of this.#index.backwards(address))
        if (before === null || isOlder(transaction, before)) yield transaction
    yield* this.#archive?.backwards(address, isArchived ? before : border) ?? []
  }
}
