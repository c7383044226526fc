// The params of a subscription, read and checked.
// Keys and signatures are binary strings (`keyOf`); lists are sorted, so that equal params are
// equal texts.
import type { Commitment } from '../../base/commitment.ts'
import type { AccountFilter } from '../../chain/solana/account-filter.ts'
import type { AccountView } from '../../chain/solana/ui-account.ts'
import type { TransactionView } from '../../chain/solana/ui-transaction.ts'

export interface AccountParams {
  readonly kind: 'account'
  readonly commitment: Commitment
  readonly key: string
  readonly view: AccountView
}

export interface ProgramParams {
  readonly kind: 'program'
  readonly commitment: Commitment
  readonly key: string
  readonly view: AccountView
  readonly filters: readonly AccountFilter[]
}

export interface LogsParams {
  readonly kind: 'logs'
  readonly commitment: Commitment
  /** Null for every transaction. */
  readonly mention: string | null
  readonly withVotes: boolean
}

export interface SignatureParams {
  readonly kind: 'signature'
  readonly commitment: Commitment
  readonly key: string
  readonly withReceived: boolean
}

export interface BlockParams {
  readonly kind: 'block'
  readonly commitment: Commitment
  /** Null for whole blocks. */
  readonly mention: string | null
  readonly view: TransactionView
}

export interface TransactionParams {
  readonly kind: 'transaction'
  readonly commitment: Commitment
  readonly filter: TransactionFilter
  readonly view: TransactionView
}

/** Members are joined by and; within `include` any key will do. Null takes both. */
export interface TransactionFilter {
  readonly isVote: boolean | null
  readonly isFailed: boolean | null
  readonly signature: string | null
  readonly include: readonly string[]
  readonly exclude: readonly string[]
  readonly required: readonly string[]
}

export interface SlotParams {
  readonly kind: 'slot' | 'slotsUpdates' | 'root'
}

export type SubscriptionParams =
  | AccountParams
  | ProgramParams
  | LogsParams
  | SignatureParams
  | BlockParams
  | TransactionParams
  | SlotParams

export const topics = [
  'account',
  'block',
  'logs',
  'program',
  'root',
  'signature',
  'slot',
  'slotsUpdates',
  'transaction',
] as const
export type Topic = (typeof topics)[number]

/** Equal for equal params. */
export function paramsText(params: SubscriptionParams): string {
  return JSON.stringify(params)
}
