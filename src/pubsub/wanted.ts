// What a subscription asks for, read and checked. Thread: any (types, and one pure function).
// Keys and signatures are binary strings (`keyOf`); lists are sorted, so that equal wishes are
// equal texts.
import type { Commitment } from '../base/commitment.ts'
import type { AccountFilter } from '../solana/account-filter.ts'
import type { AccountView } from '../solana/ui-account.ts'
import type { TransactionView } from '../solana/ui-transaction.ts'

export interface AccountWanted {
  readonly kind: 'account'
  readonly commitment: Commitment
  readonly key: string
  readonly view: AccountView
}

export interface ProgramWanted {
  readonly kind: 'program'
  readonly commitment: Commitment
  readonly key: string
  readonly view: AccountView
  readonly filters: readonly AccountFilter[]
}

export interface LogsWanted {
  readonly kind: 'logs'
  readonly commitment: Commitment
  /** Null for every transaction. */
  readonly mention: string | null
  readonly withVotes: boolean
}

export interface SignatureWanted {
  readonly kind: 'signature'
  readonly commitment: Commitment
  readonly key: string
  readonly wantsReceived: boolean
}

export interface BlockWanted {
  readonly kind: 'block'
  readonly commitment: Commitment
  /** Null for whole blocks. */
  readonly mention: string | null
  readonly view: TransactionView
}

export interface TransactionWanted {
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

export interface SlotWanted {
  readonly kind: 'slot' | 'slotsUpdates' | 'root'
}

export type Wanted =
  | AccountWanted
  | ProgramWanted
  | LogsWanted
  | SignatureWanted
  | BlockWanted
  | TransactionWanted
  | SlotWanted

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

/** The same text for the same wish, whoever has it. */
export function wantedText(wanted: Wanted): string {
  return JSON.stringify(wanted)
}
