// Types of compiled filters. Immutable, but for the lists of keys of a stream that changes them,
// and for the states of one that compares.
import { randomUUID } from 'node:crypto'
import { Commitment } from '../../base/commitment.ts'
import type { InstructionFilter } from '../../chain/solana/instruction-filter.ts'
import { type KeyDelta, KeyList, type KeyText } from '../hub/key-list.ts'
import type { Cuckoo } from './cuckoo.ts'
import type { StreamStates } from './stream-states.ts'

export interface NamedFilter {
  /** Position among the filters of its kind; names are sent in this order. */
  readonly ordinal: number
  /** The name as field 1 of SubscribeUpdate, encoded. */
  readonly prefix: Buffer
}

export type StateFilter =
  | { readonly kind: 'memcmp'; readonly offset: number; readonly bytes: Uint8Array }
  | { readonly kind: 'datasize'; readonly bytes: bigint }
  | { readonly kind: 'tokenAccount' }
  | { readonly kind: 'lamports'; readonly cmp: 'eq' | 'ne' | 'lt' | 'gt'; readonly value: bigint }

/** All conditions apply at once; a list that never had a key is no condition. */
export interface AccountFilter extends NamedFilter {
  readonly accounts: KeyList
  readonly cuckoo: Cuckoo | null
  readonly owners: KeyList
  readonly states: readonly StateFilter[]
  readonly hasSignature: boolean | undefined
  /** Only writes that changed something. */
  readonly diffOnly: boolean
}

export interface TransactionFilter extends NamedFilter {
  readonly isVote: boolean | undefined
  readonly isFailed: boolean | undefined
  readonly signature: KeyText | null
  readonly include: KeyList
  readonly cuckoo: Cuckoo | null
  readonly exclude: KeyList
  readonly required: readonly KeyText[]
  /** Owners of token balances count as mentioned: none, all, or those whose balance changed. */
  readonly tokenOwners: 'none' | 'all' | 'changed'
  /** One of them must be run; none is no condition. */
  readonly instructions: readonly InstructionFilter[]
  readonly withBlockTime: boolean
  /** The states of accounts in `include`, before and after. */
  readonly withStates: boolean
}

export interface SlotFilter extends NamedFilter {
  readonly byCommitment: boolean
  readonly interslot: boolean
}

export interface BlockFilter extends NamedFilter {
  readonly include: KeyList
  readonly cuckoo: Cuckoo | null
  readonly withTransactions: boolean
  readonly withAccounts: boolean
  readonly withEntries: boolean
  /** Equal texts, equal selection while no key has changed: bodies are shared by it. */
  readonly shape: string
}

export interface DataSlice {
  readonly offset: number
  readonly length: number
}

export interface FilterSet {
  /** Equal texts, equal sets: streams are grouped by it. */
  readonly key: string
  readonly commitment: Commitment
  readonly accounts: readonly AccountFilter[]
  readonly slots: readonly SlotFilter[]
  readonly transactions: readonly TransactionFilter[]
  readonly statuses: readonly TransactionFilter[]
  readonly blocks: readonly BlockFilter[]
  readonly blocksMeta: readonly NamedFilter[]
  readonly entries: readonly NamedFilter[]
  readonly slices: readonly DataSlice[]
  /** Equal texts, equal slices; empty for whole data. */
  readonly sliceKey: string
  /** Whether a transactions filter asks for what is not in the node's message. */
  readonly hasExtras: boolean
  /** Of this stream, where a filter compares: such a set is shared with no other one. */
  readonly states: StreamStates | null
  /** The names of all filters, for retractions; null on a stream that did not ask for them. */
  readonly retractions: Buffer | null
}

/** The same filters on a stream with retractions, which are of what is sent at processed. */
export function withRetractions(filters: FilterSet): FilterSet {
  if (filters.commitment !== Commitment.processed) return filters
  const { accounts, slots, transactions, statuses, blocks, blocksMeta, entries } = filters
  const all = [accounts, slots, transactions, statuses, blocks, blocksMeta, entries].flat()
  const names = new Map(all.map(({ prefix }) => [prefix.toString('latin1'), prefix]))
  const retractions = Buffer.concat([...names.values()])
  return { ...filters, key: `${filters.key} retractions`, retractions }
}

/** A list of keys: of the filter with that ordinal among those of its kind. */
export type ListAt = { readonly ordinal: number } & (
  | { readonly kind: 'accounts'; readonly list: 'accounts' | 'owners' }
  | { readonly kind: 'transactions' | 'statuses'; readonly list: 'include' | 'exclude' }
  | { readonly kind: 'blocks'; readonly list: 'include' }
)

export type KeyChange = ListAt & { readonly delta: KeyDelta }

export function keysAt(filters: FilterSet, at: ListAt): KeyList {
  if (at.kind === 'accounts') return filters.accounts[at.ordinal]![at.list]
  if (at.kind === 'blocks') return filters.blocks[at.ordinal]!.include
  return filters[at.kind][at.ordinal]![at.list]
}

/** All lists of keys that may change. */
export function* listsOf(filters: FilterSet): Generator<ListAt> {
  for (const { ordinal } of filters.accounts)
    for (const list of ['accounts', 'owners'] as const) yield { kind: 'accounts', list, ordinal }
  for (const kind of ['transactions', 'statuses'] as const)
    for (const { ordinal } of filters[kind])
      for (const list of ['include', 'exclude'] as const) yield { kind, list, ordinal }
  for (const { ordinal } of filters.blocks) yield { kind: 'blocks', list: 'include', ordinal }
}

/** Filters that no other stream shares a group with: their keys may change. */
export function ownFilters(filters: FilterSet): FilterSet {
  return { ...filters, key: randomUUID() }
}

/** The same with lists of its own. */
export function copyFilters(filters: FilterSet): FilterSet {
  const copy = (keys: KeyList) => new KeyList(new Set(keys))
  const transactions = (one: TransactionFilter) => ({
    ...one,
    include: copy(one.include),
    exclude: copy(one.exclude),
  })
  return {
    ...ownFilters(filters),
    accounts: filters.accounts.map((one) => ({
      ...one,
      accounts: copy(one.accounts),
      owners: copy(one.owners),
    })),
    transactions: filters.transactions.map(transactions),
    statuses: filters.statuses.map(transactions),
    blocks: filters.blocks.map((one) => ({ ...one, include: copy(one.include) })),
  }
}

/** Whether a stream gets slots and nothing that may be bulky. */
export function hasSlotsOnly(filters: FilterSet): boolean {
  const { slots, accounts, transactions, statuses, blocks, blocksMeta, entries } = filters
  const others = [accounts, transactions, statuses, blocks, blocksMeta, entries]
  return slots.length > 0 && others.every(({ length }) => length === 0)
}
