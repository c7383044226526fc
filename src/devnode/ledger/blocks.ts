// The newest complete blocks and their hashes, within the bounds of the memory. Thread: main of the
// devnode.
import { assert } from '../../base/errors.ts'
import { keyOf } from '../../chain/solana/base58.ts'
import { blockhashBlocks } from '../../chain/solana/updates.ts'
import type { Block, StoredTransaction } from './ledger.ts'

const blockhashesMax = 300
/** Whatever the bounds are, duplicates must be recognised while their blockhash is valid. */
const blocksMin = 320

/** Bounds of what is in memory. */
export interface LedgerBounds {
  readonly blocks: number
  readonly bytes: number
}

export class Blocks {
  readonly #bounds: LedgerBounds
  /** Ascending by slot. */
  readonly #bySlot = new Map<number, Block>()
  /** Heights of the last blocks by their hash. */
  readonly #heightOf = new Map<string, number>()
  #newest: Block | null = null
  /** Memory that they take, about. */
  bytes = 0

  constructor(bounds: LedgerBounds) {
    this.#bounds = bounds
  }

  get newest(): Block {
    assert(this.#newest !== null, 'the ledger has its first block')
    return this.#newest
  }

  get firstSlot(): number {
    return this.#bySlot.keys().next().value ?? 0
  }

  get(slot: number): Block | null {
    return this.#bySlot.get(slot) ?? null
  }

  /**
   * Appends the newest block; returns those that the bounds evict, oldest first. `keptFrom`: slots
   * from there on are not evicted.
   */
  append(block: Block, keptFrom: number): Block[] {
    this.#newest = block
    this.#bySlot.set(block.slot, block)
    this.bytes += block.bytes
    this.#heightOf.set(keyOf(block.facts.hash), block.blockHeight)
    if (this.#heightOf.size > blockhashesMax)
      this.#heightOf.delete(this.#heightOf.keys().next().value!)
    return this.#evict(keptFrom)
  }

  /** Slots of blocks from `from` to `to`, both included; at most `limit`. */
  slots(range: { readonly from: number; readonly to: number; readonly limit: number }): number[] {
    const slots: number[] = []
    for (const slot of this.#bySlot.keys()) {
      if (slot > range.to || slots.length === range.limit) break
      if (slot >= range.from) slots.push(slot)
    }
    return slots
  }

  /** Known and at most 150 blocks older than the block of that height. */
  isBlockhashValid(blockhash: Uint8Array, height: number): boolean {
    const known = this.#heightOf.get(keyOf(blockhash))
    return known !== undefined && known <= height && height - known <= blockhashBlocks
  }

  #evict(keptFrom: number): Block[] {
    const { blocks, bytes } = this.#bounds
    const evicted: Block[] = []
    while (this.#bySlot.size > blocksMin && (this.#bySlot.size > blocks || this.bytes > bytes)) {
      const oldest = this.#bySlot.values().next().value!
      if (oldest.slot >= keptFrom) break
      this.#bySlot.delete(oldest.slot)
      this.bytes -= oldest.bytes
      evicted.push(oldest)
    }
    return evicted
  }
}

// Indexes the transactions of the recent blocks by signature and by address. Thread: main of the
// devnode. An address has its transactions oldest first; blocks are evicted oldest first too, so an
// evicted transaction is always the first of its addresses.

/** What a transaction is found by. */
export interface Indexed {
  readonly signature: Uint8Array
  readonly keys: readonly Uint8Array[]
}

export class History {
  readonly #bySignature = new Map<string, StoredTransaction>()
  readonly #byAddress = new Map<string, Queue>()

  /** `known`: signature and keys where the caller has decoded them already. */
  add(transaction: StoredTransaction, known: Indexed = transaction): void {
    this.#bySignature.set(keyOf(known.signature), transaction)
    for (const key of known.keys) {
      const address = keyOf(key)
      let queue = this.#byAddress.get(address)
      if (queue === undefined) {
        queue = new Queue()
        this.#byAddress.set(address, queue)
      }
      queue.push(transaction)
    }
  }

  find(signature: Uint8Array): StoredTransaction | null {
    return this.#bySignature.get(keyOf(signature)) ?? null
  }

  /** Removes the transactions of the oldest block. */
  drop(transactions: readonly StoredTransaction[]): void {
    for (const transaction of transactions) {
      this.#bySignature.delete(keyOf(transaction.signature))
      for (const key of transaction.keys) {
        const address = keyOf(key)
        const queue = this.#byAddress.get(address)
        queue?.shift()
        if (queue?.length === 0) this.#byAddress.delete(address)
      }
    }
  }

  /** Transactions of an address, newest first. */
  backwards(address: Uint8Array): Iterable<StoredTransaction> {
    return this.#byAddress.get(keyOf(address))?.backwards() ?? []
  }
}

/** A queue whose front is removed without moving the rest each time. */
class Queue {
  #items: (StoredTransaction | null)[] = []
  #from = 0

  get length(): number {
    return this.#items.length - this.#from
  }

  push(item: StoredTransaction): void {
    this.#items.push(item)
  }

  shift(): void {
    this.#items[this.#from] = null
    this.#from += 1
    if (this.#from < 64 || this.#from * 2 < this.#items.length) return
    this.#items = this.#items.slice(this.#from)
    this.#from = 0
  }

  *backwards(): IterableIterator<StoredTransaction> {
    for (let at = this.#items.length - 1; at >= this.#from; at--) yield this.#items[at]!
  }
}
