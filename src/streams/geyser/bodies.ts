// The bodies of one update in the variants that filters select, each encoded at most once.
import { encodeAccount, encodeAccountInfo, encodeBlock } from '../../chain/solana/geyser-encode.ts'
import type { AccountUpdate, BlockUpdate } from '../../chain/solana/updates.ts'
import { includesKey, includesTransaction, sliceData } from './filter-match.ts'
import type { BlockFilter, FilterSet } from './filter-set.ts'

/** An account's body reduced to slices of its data. */
export class AccountBodies {
  readonly #update: AccountUpdate
  readonly #sliced = new Map<string, Buffer>()

  constructor(update: AccountUpdate) {
    this.#update = update
  }

  for(filters: FilterSet): Uint8Array {
    let body = this.#sliced.get(filters.sliceKey)
    if (body === undefined) {
      body = encodeAccount(slicedInfo(this.#update, filters), this.#update).body
      this.#sliced.set(filters.sliceKey, body)
    }
    return body
  }
}

/** A block's body by what a filter includes. */
export class BlockBodies {
  readonly #update: BlockUpdate
  readonly #bodies = new Map<string, Buffer>()

  constructor(update: BlockUpdate) {
    this.#update = update
  }

  for(filter: BlockFilter, filters: FilterSet): Uint8Array {
    const key = filter.withAccounts ? `${filter.shape} ${filters.sliceKey}` : filter.shape
    let body = this.#bodies.get(key)
    if (body === undefined) {
      body = select(this.#update, filter, filters)
      this.#bodies.set(key, body)
    }
    return body
  }
}

function select(block: BlockUpdate, filter: BlockFilter, filters: FilterSet): Buffer {
  const transactions = filter.withTransactions
    ? block.transactions.filter((transaction) => includesTransaction(filter, transaction))
    : []
  const accounts = filter.withAccounts
    ? block.accounts.filter(({ pubkey }) => includesKey(filter, pubkey))
    : []
  return encodeBlock({
    slot: block.slot,
    meta: block.meta,
    rewards: block.meta.rewards,
    updatedAccountCount: block.accounts.length,
    transactions: transactions.map(({ info }) => info),
    accounts: accounts.map((account) =>
      filters.slices.length === 0 ? account.info : slicedInfo(account, filters),
    ),
    entries: filter.withEntries ? block.entries.map(({ body }) => body) : [],
  })
}

function slicedInfo(account: AccountUpdate, filters: FilterSet): Buffer {
  return encodeAccountInfo(account, sliceData(account.data, filters.slices))
}
