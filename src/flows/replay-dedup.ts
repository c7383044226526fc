// Deduplicates the parts of an incomplete slot that a node replays after a reconnect. Thread: main.
// The replay may come from another node, so values that each node assigns itself (write versions,
// times) are not part of the dedup key.
import { hash } from 'node:crypto'
import { keyOf } from '../solana/keys.ts'
import type { AccountUpdate, EntryUpdate, TransactionUpdate } from '../solana/updates.ts'

/** The kinds of updates that make up a slot. */
export type SlotPart = AccountUpdate | TransactionUpdate | EntryUpdate

export class ReplayDedup {
  readonly #left: Map<string, number>

  /** `earlier` holds parts of previous connections that the last one did not replay. */
  constructor(parts: Iterable<SlotPart>, earlier: ReplayDedup | null) {
    this.#left = earlier === null ? new Map() : new Map(earlier.#left)
    for (const part of parts) {
      const name = nameOf(part)
      this.#left.set(name, (this.#left.get(name) ?? 0) + 1)
    }
  }

  /** True for a duplicate of a published part; each published part matches once. */
  consume(part: SlotPart): boolean {
    const name = nameOf(part)
    const left = this.#left.get(name) ?? 0
    if (left === 0) return false
    if (left === 1) this.#left.delete(name)
    else this.#left.set(name, left - 1)
    return true
  }
}

/** Dedup key: the same on every node that has the same block. */
function nameOf(part: SlotPart): string {
  switch (part.kind) {
    case 'transaction':
      return `t${keyOf(part.signature)}`
    case 'entry':
      return `e${keyOf(part.body)}`
    case 'account': {
      const { pubkey, txnSignature, data, lamports } = part
      // A transaction writes an account once; other writes are identified by their content.
      const by = txnSignature === null ? `${lamports} ${hash('sha1', data)}` : keyOf(txnSignature)
      return `a${keyOf(pubkey)}${by}`
    }
  }
}
