// Block update assembled from the items that a node streamed.
// The lists are built on first access, so they cost nothing unless a subscriber reads blocks.
import { keyOf } from '../../chain/solana/keys.ts'
import type {
  AccountUpdate,
  BlockMetaUpdate,
  BlockUpdate,
  EntryUpdate,
  TransactionUpdate,
} from '../../chain/solana/updates.ts'
import type { UpdateList } from '../hub/update-list.ts'
import type { SlotItem } from './replay-dedup.ts'

export class AssembledBlock implements BlockUpdate {
  readonly kind = 'block'
  readonly slot: number
  readonly createdAtMs: number
  readonly meta: BlockMetaUpdate
  readonly isMixed: boolean
  readonly #items: UpdateList<SlotItem>
  #transactions: readonly TransactionUpdate[] | null = null
  #accounts: readonly AccountUpdate[] | null = null

  /** `items` are all those of the slot, in the order of arrival. */
  constructor(meta: BlockMetaUpdate, items: UpdateList<SlotItem>, isMixed: boolean) {
    this.slot = meta.slot
    this.createdAtMs = meta.createdAtMs
    this.meta = meta
    this.isMixed = isMixed
    this.#items = items
  }

  /** Sorted by index in the block: nodes send them in the order their threads finish. */
  get transactions(): readonly TransactionUpdate[] {
    if (this.#transactions === null) {
      const found = [...this.#items].filter((item) => item.kind === 'transaction')
      this.#transactions = isAscending(found) ? found : found.sort((a, b) => a.index - b.index)
    }
    return this.#transactions
  }

  /** The last write of each account; a block contains only that one. */
  get accounts(): readonly AccountUpdate[] {
    if (this.#accounts === null) {
      const last = new Map<string, AccountUpdate>()
      for (const item of this.#items)
        if (item.kind === 'account') last.set(keyOf(item.pubkey), item)
      this.#accounts = [...last.values()]
    }
    return this.#accounts
  }

  get entries(): readonly EntryUpdate[] {
    return [...this.#items].filter((item) => item.kind === 'entry')
  }
}

function isAscending(transactions: readonly TransactionUpdate[]): boolean {
  return transactions.every((one, at) => at === 0 || transactions[at - 1]!.index < one.index)
}
