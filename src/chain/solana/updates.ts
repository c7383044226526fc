// Types of what a Solana chain reports: updates, slot statuses and heads.
import type { Commitment } from '../../base/commitment.ts'
import type { AccountContent, BlockMetaContent } from './geyser-decode.ts'
import type { TransactionError } from './transaction-error.ts'

/** Slot status, numbered as in geyser; the first three are the commitments. */
export const slotStatus = {
  processed: 0,
  confirmed: 1,
  finalized: 2,
  firstShredReceived: 3,
  completed: 4,
  createdBank: 5,
  dead: 6,
} as const

export type SlotStatus = (typeof slotStatus)[keyof typeof slotStatus]

/** Whether what the slot had so far, if anything, is void: it is dead, or has a new bank. */
export function endsBank(status: SlotStatus): boolean {
  return status === slotStatus.dead || status === slotStatus.createdBank
}

/**
 * What a Solana chain publishes, once, in this order within a slot: accounts, transactions and
 * entries as they happen, then the block, then its meta, then the slot's status.
 * solana/received-batch.ts builds these: plain fields for filters, and `body`, the geyser message
 * encoded once. The bytes are immutable afterwards; many queues share them. Those of a node's
 * update are views of a batch of up to 256 KiB: whoever keeps a few of them for long copies them.
 */
export type SolanaUpdate =
  | AccountUpdate
  | TransactionUpdate
  | EntryUpdate
  | BlockUpdate
  | BlockMetaUpdate
  | SlotUpdate
  | RetractionUpdate

interface UpdateBase {
  readonly slot: number
  /** Wall time in milliseconds, with a fraction. */
  readonly createdAtMs: number
  /** Makes the same update again, where it is not kept itself. */
  readonly source?: { update(position: number): unknown }
  readonly position?: number
  /** The length of `body`, where it is known before that is read. */
  readonly bodyBytes?: number
}

export interface AccountUpdate extends UpdateBase, AccountContent {
  readonly kind: 'account'
  readonly isStartup: boolean
  /** SubscribeUpdateAccount; `info` is the SubscribeUpdateAccountInfo inside it. */
  readonly body: Uint8Array
  readonly info: Uint8Array
}

export interface TransactionUpdate extends UpdateBase {
  readonly kind: 'transaction'
  readonly signature: Uint8Array
  readonly isVote: boolean
  /** The runtime's error in bincode; null when it succeeded. */
  readonly err: Uint8Array | null
  readonly index: number
  /** Static keys, then the loaded ones. */
  readonly keys: readonly Uint8Array[]
  /** Owners of token balances before or after; and of those that changed. */
  readonly tokenOwners: readonly Uint8Array[]
  readonly changedTokenOwners: readonly Uint8Array[]
  /** Null when it never ran: it only paid. */
  readonly logs: readonly string[] | null
  /** SubscribeUpdateTransaction; `info` is the SubscribeUpdateTransactionInfo inside it. */
  readonly body: Uint8Array
  readonly info: Uint8Array
  /** SubscribeUpdateTransactionStatus. */
  readonly statusBody: Uint8Array
}

export interface EntryUpdate extends UpdateBase {
  readonly kind: 'entry'
  readonly index: number
  readonly body: Uint8Array
}

export interface BlockMetaUpdate extends UpdateBase, Omit<BlockMetaContent, 'rewards'> {
  readonly kind: 'blockMeta'
  /** Id of its bank, ours; none where a source has only one bank of a slot. */
  readonly bank?: number
  /** It was published without some of its items, which may come late. */
  readonly isIncomplete?: boolean
  /** solana.storage.ConfirmedBlock.Rewards, encoded. */
  readonly rewards: Uint8Array
  readonly body: Uint8Array
}

/** A whole block without a body: each filter selects different content of it. */
export interface BlockUpdate extends UpdateBase {
  readonly kind: 'block'
  /** Several connections sent its items: at processed they are a mixture of theirs. */
  readonly isMixed?: boolean
  /** Some of its account writes may be of a bank that was replaced. */
  readonly hasVoid?: boolean
  readonly meta: BlockMetaUpdate
  readonly transactions: readonly TransactionUpdate[]
  readonly accounts: readonly AccountUpdate[]
  readonly entries: readonly EntryUpdate[]
}

export interface SlotUpdate extends UpdateBase {
  readonly kind: 'slot'
  /** Of the slot's bank, as in its meta. What follows CREATED_BANK of the slot is of that bank. */
  readonly bank?: number
  readonly parent: number | null
  readonly status: SlotStatus
  readonly body: Uint8Array
}

/**
 * Why a bank is void: another one of its slot follows (`handover`), the slot is dead, another fork
 * or version of the block won, the chain was set back. Numbered as on the wire.
 */
export const retractionReasons = ['handover', 'dead', 'fork', 'migration'] as const

export type RetractionReason = (typeof retractionReasons)[number]

/** Everything of the slot that was published before it, at processed, is void. */
export interface RetractionUpdate extends UpdateBase {
  readonly kind: 'retraction'
  /** Id of the bank, as in slot updates and metas: each is retracted at most once. */
  readonly bank: number
  readonly reason: RetractionReason
  /** What of it was published before and is valid, in order: of the next bank. */
  readonly restated: Iterable<SolanaUpdate>
  /** SubscribeUpdateRetraction. */
  readonly body: Uint8Array
}

export interface SignatureStatus {
  readonly slot: number
  /** Blocks on top of it; null when it is finalized. */
  readonly confirmations: number | null
  readonly err: TransactionError | null
  readonly commitment: Commitment
}

/** Blocks after which a transaction that names a blockhash is refused by the chain. */
export const blockhashBlocks = 150

export interface Head {
  readonly slot: number
  readonly blockhash: string
  readonly blockHeight: number
}

/** A head whose node may leave out the height of its blocks. */
export interface StreamHead extends Omit<Head, 'blockHeight'> {
  readonly blockHeight: number | null
}

/** The newest blocks of a chain, from its updates. */
export interface SolanaHeads {
  /** The newest block with at least that commitment; null before the first. */
  at(commitment: Commitment): StreamHead | null
  /**
   * Whether a transaction with this blockhash can still land, seen from that commitment; null when
   * the heights of the blocks are unknown.
   */
  isBlockhashValid(blockhash: string, commitment: Commitment): boolean | null
}
