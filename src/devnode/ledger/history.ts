// Transactions by signature and by address, as long as their blocks are kept. Thread: main.
// Called by state.ts. Addresses hold their transactions oldest first; blocks leave oldest first
// too, so what leaves an address always stands at its front.
import { keyOf } from '../../solana/keys.ts'
import type { StoredTransaction } from './stored-transaction.ts'

export class History {
  readonly #bySignature = new Map<string, StoredTransaction>()
  readonly #byAddress = new Map<string, Line>()

  get size(): number {
    return this.#bySignature.size
  }

  /** `known`: what the caller has at hand already and would cost a decoding here. */
  add(
    transaction: StoredTransaction,
    known: { readonly signature: Uint8Array; readonly keys: readonly Uint8Array[] } = transaction,
  ): void {
    this.#bySignature.set(keyOf(known.signature), transaction)
    for (const key of known.keys) {
      const address = keyOf(key)
      let line = this.#byAddress.get(address)
      if (line === undefined) {
        line = new Line()
        this.#byAddress.set(address, line)
      }
      line.push(transaction)
    }
  }

  find(signature: Uint8Array): StoredTransaction | null {
    return this.#bySignature.get(keyOf(signature)) ?? null
  }

  /** The oldest block leaves: its transactions are the oldest of their addresses. */
  drop(transactions: readonly StoredTransaction[]): void {
    for (const transaction of transactions) {
      this.#bySignature.delete(keyOf(transaction.signature))
      for (const key of transaction.keys) {
        const address = keyOf(key)
        const line = this.#byAddress.get(address)
        line?.shift()
        if (line?.length === 0) this.#byAddress.delete(address)
      }
    }
  }

  /** Newest first. */
  *of(address: Uint8Array): IterableIterator<StoredTransaction> {
    const line = this.#byAddress.get(keyOf(address))
    if (line !== undefined) yield* line.backwards()
  }
}

/** A queue that gives up its front without moving the rest each time. */
class Line {
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
