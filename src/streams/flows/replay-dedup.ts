// Deduplicates the items of an incomplete slot that a node replays after a reconnect.
// The replay may come from another node, so values that each node assigns itself (write versions,
// times) are excluded from the dedup key.
import { hash } from 'node:crypto'
import { keyOf } from '../../chain/solana/keys.ts'
import type { AccountUpdate, EntryUpdate, TransactionUpdate } from '../../chain/solana/updates.ts'

/** The kinds of updates that make up a slot. */
export type SlotItem = AccountUpdate | TransactionUpdate | EntryUpdate

export class ReplayDedup {
  readonly #left: Map<string, number>

  /** `earlier` has the items of previous connections that the last one did not replay. */
  constructor(items: Iterable<SlotItem>, earlier: ReplayDedup | null) {
    this.#left = earlier === null ? new Map() : new Map(earlier.#left)
    for (const item of items) {
      const name = nameOf(item)
      this.#left.set(name, (this.#left.get(name) ?? 0) + 1)
    }
  }

  /** True for a duplicate of a published item; each published item matches once. */
  consume(item: SlotItem): boolean {
    const name = nameOf(item)
    const left = this.#left.get(name) ?? 0
    if (left === 0) return false
    if (left === 1) this.#left.delete(name)
    else this.#left.set(name, left - 1)
    return true
  }
}

/** Dedup key: the same on every node that has the same block. */
function nameOf(item: SlotItem): string {
  switch (item.kind) {
    case 'transaction':
      return `t${keyOf(item.signature)}`
    case 'entry':
      return `e${keyOf(item.body)}`
    case 'account': {
      const { pubkey, txnSignature, data, lamports } = item
      // A transaction writes an account once; other writes are identified by their content.
      const by = txnSignature === null ? `${lamports} ${hash('sha1', data)}` : keyOf(txnSignature)
      return `a${keyOf(pubkey)}${by}`
    }
  }
}
