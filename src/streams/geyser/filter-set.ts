// Types of compiled filters. Immutable.
import { Commitment } from '../../base/commitment.ts'
import type { Cuckoo } from './cuckoo.ts'

/** A 32-byte key or a signature, as `keyOf` of solana/keys.ts returns it. */
export type KeyText = string

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

/** All conditions apply at once; an empty set of keys is no condition. */
export interface AccountFilter extends NamedFilter {
  readonly accounts: ReadonlySet<KeyText>
  readonly cuckoo: Cuckoo | null
  readonly owners: ReadonlySet<KeyText>
  readonly states: readonly StateFilter[]
  readonly hasSignature: boolean | undefined
}

export interface TransactionFilter extends NamedFilter {
  readonly isVote: boolean | undefined
  readonly isFailed: boolean | undefined
  readonly signature: KeyText | null
  readonly include: ReadonlySet<KeyText>
  readonly cuckoo: Cuckoo | null
  readonly exclude: ReadonlySet<KeyText>
  readonly required: readonly KeyText[]
  /** Owners of token balances count as mentioned: none, all, or those whose balance changed. */
  readonly tokenOwners: 'none' | 'all' | 'changed'
}

export interface SlotFilter extends NamedFilter {
  readonly byCommitment: boolean
  readonly interslot: boolean
}

export interface BlockFilter extends NamedFilter {
  readonly include: ReadonlySet<KeyText>
  readonly cuckoo: Cuckoo | null
  readonly withTransactions: boolean
  readonly withAccounts: boolean
  readonly withEntries: boolean
  /** Equal texts, equal selection: bodies are shared by it. */
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
