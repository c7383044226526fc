// A block put together of parts that a node told one by one. Thread: main. Made by slot-book.ts.
// Who wants blocks asks for its lists; nobody else pays for them.

import { keyOf } from '../solana/keys.ts'
import type {
  AccountUpdate,
  BlockMetaUpdate,
  BlockUpdate,
  EntryUpdate,
  TransactionUpdate,
} from '../solana/updates.ts'
import type { SlotPart } from './told-before.ts'

export class AssembledBlock implements BlockUpdate {
  readonly kind = 'block'
  readonly slot: number
  readonly createdAtMs: number
  readonly meta: BlockMetaUpdate
  readonly #parts: readonly SlotPart[]
  #transactions: readonly TransactionUpdate[] | null = null
  #accounts: readonly AccountUpdate[] | null = null

  /** `parts` is everything that was told of the slot, in its order. */
  constructor(meta: BlockMetaUpdate, parts: readonly SlotPart[]) {
    this.slot = meta.slot
    this.createdAtMs = meta.createdAtMs
    this.meta = meta
    this.#parts = parts
  }

  /** By their place in the block: nodes tell them as their threads come by. */
  get transactions(): readonly TransactionUpdate[] {
    if (this.#transactions === null) {
      const found = this.#parts.filter((part) => part.kind === 'transaction')
      this.#transactions = isAscending(found) ? found : found.sort((a, b) => a.index - b.index)
    }
    return this.#transactions
  }

  /** The last write of each account: a block shows no other. */
  get accounts(): readonly AccountUpdate[] {
    if (this.#accounts === null) {
      const last = new Map<string, AccountUpdate>()
      for (const part of this.#parts)
        if (part.kind === 'account') last.set(keyOf(part.pubkey), part)
      this.#accounts = [...last.values()]
    }
    return this.#accounts
  }

  get entries(): readonly EntryUpdate[] {
    return this.#parts.filter((part) => part.kind === 'entry')
  }
}

function isAscending(transactions: readonly TransactionUpdate[]): boolean {
  return transactions.every((one, at) => at === 0 || transactions[at - 1]!.index < one.index)
}
