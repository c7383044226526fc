// The bodies of one update in the variants that filters select, each encoded at most once.
import { BackWriter } from '../../base/back-writer.ts'
import { encodeAccount, encodeAccountInfo, encodeBlock } from '../../chain/solana/geyser-encode.ts'
import type { KnownBlocks } from '../../chain/solana/known-blocks.ts'
import type { AccountUpdate, BlockUpdate, TransactionUpdate } from '../../chain/solana/updates.ts'
import type { KeyText } from '../hub/key-list.ts'
import { includesKey, includesTransaction, sliceData } from './filter-match.ts'
import type { BlockFilter, FilterSet, TransactionFilter } from './filter-set.ts'
import type { StreamStates } from './stream-states.ts'

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

/** Of SubscribeUpdateTransaction and SubscribeUpdateTransactionStatus, where a filter asks. */
const blockTimeField = 1010
const writer = new BackWriter()

/** A transaction's body, or that of its status, with what filters ask for beside it. */
export class TransactionBodies {
  readonly #update: TransactionUpdate
  readonly #body: Uint8Array
  readonly #blockTime: number | null
  #withTime: Buffer | null = null

  constructor(update: TransactionUpdate, body: Uint8Array, blocks: KnownBlocks) {
    this.#update = update
    this.#body = body
    this.#blockTime = blocks.timeOf(update.slot)
  }

  /** For all filters of a stream that it matched. */
  for(hits: readonly TransactionFilter[], states: StreamStates | null): Uint8Array {
    const body = hits.some(({ withBlockTime }) => withBlockTime) ? this.#timed() : this.#body
    const asking = hits.filter(({ withStates }) => withStates)
    if (asking.length === 0) return body
    const { slot } = this.#update
    const isWatched = (key: KeyText) => asking.some(({ include }) => include.has(key, slot))
    const joined = states!.joined.take(this.#update, isWatched)
    return joined.length === 0 ? body : Buffer.concat([body, joined])
  }

  #timed(): Uint8Array {
    if (this.#blockTime === null) return this.#body
    this.#withTime ??= Buffer.concat([this.#body, blockTimeBytes(this.#blockTime)])
    return this.#withTime
  }
}

function blockTimeBytes(blockTime: number): Buffer {
  writer.bigAlways(blockTimeField, BigInt(blockTime))
  return writer.take()
}

/** A block's body by what a filter includes. */
export class BlockBodies {
  readonly #update: BlockUpdate
  readonly #bodies = new Map<string, Buffer>()

  constructor(update: BlockUpdate) {
    this.#update = update
  }

  for(filter: BlockFilter, filters: FilterSet): Uint8Array {
    // A stream alone has the key of its filters to itself; what it shares has equal keys.
    const shape = filter.include.hasChanged ? `${filters.key} ${filter.ordinal}` : filter.shape
    const key = filter.withAccounts ? `${shape} ${filters.sliceKey}` : shape
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
    ? block.accounts.filter(({ pubkey }) => includesKey(filter, pubkey, block.slot))
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
