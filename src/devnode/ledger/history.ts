// Indexes the transactions of the recent blocks by signature and by address. Thread: main of the
// devnode. An address has its transactions oldest first; blocks are evicted oldest first too, so an
// evicted transaction is always the first of its addresses.
import { keyOf } from '../../chain/solana/keys.ts'
import type { StoredTransaction } from './stored-transaction.ts'

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
