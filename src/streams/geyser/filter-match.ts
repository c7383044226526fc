// Decides whether one filter matches one update.
import { BackWriter } from '../../base/protobuf.ts'
import { keyOf } from '../../chain/solana/base58.ts'
import { decodeTransactionInfo, type TransactionContent } from '../../chain/solana/geyser-decode.ts'
import { encodeAccount, encodeAccountInfo, encodeBlock } from '../../chain/solana/geyser-encode.ts'
import { type InstructionFilter, runsAny } from '../../chain/solana/instruction-filter.ts'
import type { KnownBlocks } from '../../chain/solana/known-blocks.ts'
import type { AccountUpdate, BlockUpdate, TransactionUpdate } from '../../chain/solana/updates.ts'
import type { KeyList, KeyText } from '../hub/key-list.ts'
import type {
  AccountFilter,
  BlockFilter,
  DataSlice,
  FilterSet,
  StateFilter,
  TransactionFilter,
} from './filter-set.ts'
import type { StreamStates } from './joined-states.ts'

/** The keys of a transaction as map keys, computed at most once for all filters. */
export class TransactionKeys {
  readonly update: TransactionUpdate
  #texts: KeyText[] | null = null
  #set: Set<KeyText> | null = null
  #signature: KeyText | null = null
  #tokenOwners: KeyText[] | null = null
  #changedTokenOwners: KeyText[] | null = null
  #content: TransactionContent | null = null

  constructor(update: TransactionUpdate) {
    this.update = update
  }

  get texts(): readonly KeyText[] {
    this.#texts ??= this.update.keys.map(keyOf)
    return this.#texts
  }

  get signature(): KeyText {
    this.#signature ??= keyOf(this.update.signature)
    return this.#signature
  }

  /** Token owners that count as mentioned in the filter's mode. */
  owners(mode: TransactionFilter['tokenOwners']): readonly KeyText[] {
    if (mode === 'none') return []
    if (mode === 'all') {
      this.#tokenOwners ??= this.update.tokenOwners.map(keyOf)
      return this.#tokenOwners
    }
    this.#changedTokenOwners ??= this.update.changedTokenOwners.map(keyOf)
    return this.#changedTokenOwners
  }

  runs(instructions: readonly InstructionFilter[]): boolean {
    this.#content ??= decodeTransactionInfo(this.update.info)
    return runsAny(instructions, this.update.keys, this.#content)
  }

  mentions(key: KeyText, mode: TransactionFilter['tokenOwners']): boolean {
    this.#set ??= new Set(this.texts)
    return this.#set.has(key) || this.owners(mode).includes(key)
  }

  mentionsAny(keys: KeyList, mode: TransactionFilter['tokenOwners']): boolean {
    const isListed = (key: KeyText) => keys.has(key, this.update.slot)
    return this.texts.some(isListed) || this.owners(mode).some(isListed)
  }
}

export function matchesTransaction(filter: TransactionFilter, keys: TransactionKeys): boolean {
  const { update } = keys
  const mode = filter.tokenOwners
  if (filter.isVote !== undefined && filter.isVote !== update.isVote) return false
  if (filter.isFailed !== undefined && filter.isFailed !== (update.err !== null)) return false
  if (filter.signature !== null && filter.signature !== keys.signature) return false
  if (!filter.required.every((key) => keys.mentions(key, mode))) return false
  if (filter.exclude.isCondition && keys.mentionsAny(filter.exclude, mode)) return false
  if (!includesAny(filter, keys)) return false
  return filter.instructions.length === 0 || keys.runs(filter.instructions)
}

function includesAny(filter: TransactionFilter, keys: TransactionKeys): boolean {
  const { include, cuckoo, tokenOwners } = filter
  if (!include.isCondition && cuckoo === null) return true
  if (include.isCondition && keys.mentionsAny(include, tokenOwners)) return true
  return cuckoo !== null && cuckooMatches(filter, keys.update)
}

export function matchesAccount(filter: AccountFilter, update: AccountUpdate): boolean {
  const { hasSignature, accounts, cuckoo, owners } = filter
  if (hasSignature !== undefined && hasSignature !== (update.txnSignature !== null)) return false
  // Before the keys, whose texts cost more: many filters of one owner differ by their states only.
  for (const state of filter.states) if (!matchesState(state, update)) return false
  const { slot } = update
  if (owners.isCondition && !owners.has(keyOf(update.owner), slot)) return false
  if (accounts.isCondition || cuckoo !== null) {
    const isListed = accounts.isCondition && accounts.has(keyOf(update.pubkey), slot)
    if (!isListed && cuckoo?.has(update.pubkey) !== true) return false
  }
  return true
}

/** Whether a block filter includes a transaction of the block. */
function includesTransaction(filter: BlockFilter, update: TransactionUpdate): boolean {
  if (!filter.include.isCondition && filter.cuckoo === null) return true
  return update.keys.some((key) => includesKey(filter, key, update.slot))
}

/** Whether a block filter includes an account of a block of that slot. */
function includesKey(filter: BlockFilter, key: Uint8Array, slot: number): boolean {
  const { include } = filter
  if (!include.isCondition && filter.cuckoo === null) return true
  if (include.isCondition && include.has(keyOf(key), slot)) return true
  return filter.cuckoo?.has(key) === true
}

/** The slices of the data, concatenated; one that exceeds the data is omitted. */
function sliceData(data: Uint8Array, slices: readonly DataSlice[]): Uint8Array {
  const sliced = slices
    .filter(({ offset, length }) => offset + length <= data.length)
    .map(({ offset, length }) => data.subarray(offset, offset + length))
  return sliced.length === 1 ? sliced[0]! : Buffer.concat(sliced)
}

function cuckooMatches(filter: TransactionFilter, update: TransactionUpdate): boolean {
  const has = (key: Uint8Array) => filter.cuckoo?.has(key) === true
  if (update.keys.some(has)) return true
  if (filter.tokenOwners === 'all') return update.tokenOwners.some(has)
  return filter.tokenOwners === 'changed' && update.changedTokenOwners.some(has)
}

function matchesState(state: StateFilter, update: AccountUpdate): boolean {
  const { data, lamports } = update
  switch (state.kind) {
    case 'datasize':
      return BigInt(data.length) === state.bytes
    case 'tokenAccount':
      return isTokenAccount(data)
    case 'memcmp':
      return hasBytesAt(data, state.offset, state.bytes)
    case 'lamports':
      if (state.cmp === 'eq') return lamports === state.value
      if (state.cmp === 'ne') return lamports !== state.value
      return state.cmp === 'lt' ? lamports < state.value : lamports > state.value
  }
}

function hasBytesAt(data: Uint8Array, offset: number, bytes: Uint8Array): boolean {
  if (data.length < offset + bytes.length) return false
  for (let index = 0; index < bytes.length; index++)
    if (data[offset + index] !== bytes[index]) return false
  return true
}

const tokenAccountBytes = 165
const tokenStateAt = 108
const multisigBytes = 355
const accountTypeAccount = 2

/** An initialised token account, with or without extensions. */
function isTokenAccount(data: Uint8Array): boolean {
  if (data.length < tokenAccountBytes || data[tokenStateAt] === 0) return false
  if (data.length === tokenAccountBytes) return true
  return data.length !== multisigBytes && data[tokenAccountBytes] === accountTypeAccount
}

// The bodies of one update in the variants that filters select, each encoded at most once.

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
    if (this.#withTime !== null) return this.#withTime
    writer.bigAlways(blockTimeField, BigInt(this.#blockTime))
    this.#withTime = Buffer.concat([this.#body, writer.take()])
    return this.#withTime
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
