// What was told of a slot before its connection broke, so that a replay tells none of it twice.
// Thread: main. Used by slot-book.ts for the slots that were not complete. The replay may come from
// another node: what nodes number by themselves (write versions, times) is no part of it.
import { hash } from 'node:crypto'
import { keyOf } from '../solana/keys.ts'
import type { AccountUpdate, EntryUpdate, TransactionUpdate } from '../solana/updates.ts'

/** What a slot is made of. */
export type SlotPart = AccountUpdate | TransactionUpdate | EntryUpdate

export class ToldBefore {
  readonly #left: Map<string, number>

  /** `earlier` is what connections before that one told and it did not. */
  constructor(parts: Iterable<SlotPart>, earlier: ToldBefore | null) {
    this.#left = earlier === null ? new Map() : new Map(earlier.#left)
    for (const part of parts) {
      const name = nameOf(part)
      this.#left.set(name, (this.#left.get(name) ?? 0) + 1)
    }
  }

  /** True, and one less of it, when the same was told before. */
  take(part: SlotPart): boolean {
    const name = nameOf(part)
    const left = this.#left.get(name) ?? 0
    if (left === 0) return false
    if (left === 1) this.#left.delete(name)
    else this.#left.set(name, left - 1)
    return true
  }
}

/** The same on every node that has the same block. */
function nameOf(part: SlotPart): string {
  switch (part.kind) {
    case 'transaction':
      return `t${keyOf(part.signature)}`
    case 'entry':
      return `e${keyOf(part.body)}`
    case 'account': {
      const { pubkey, txnSignature, data, lamports } = part
      // A transaction writes an account once; what no transaction wrote is known by its content.
      const by = txnSignature === null ? `${lamports} ${hash('sha1', data)}` : keyOf(txnSignature)
      return `a${keyOf(pubkey)}${by}`
    }
  }
}
