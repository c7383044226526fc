// What the shared RPC methods read of a chain, at a commitment.
// Every read is synchronous, and those of one call are consistent.
import type { Commitment } from '../../base/commitment.ts'
import type { RpcError } from '../../base/jsonrpc/build.ts'
import type { AccountState, RewardContent, TransactionContent } from '../solana/geyser-decode.ts'
import type { SignatureStatus } from '../solana/updates.ts'
import type { Shapes } from '../solana/version.ts'
import type { BlockFee } from './recent-fees.ts'

export interface SlotReads {
  /** The newest complete slot at a commitment. */
  slot(commitment: Commitment): number
  /** The newest slot whose writes a commitment sees. */
  stateSlot(commitment: Commitment): number
  blockHeight(commitment: Commitment): number
  latestBlockhash(commitment: Commitment): LatestBlockhash
  /** Known and not more than 150 blocks old, seen from the commitment's slot. */
  isBlockhashValid(blockhash: Uint8Array, commitment: Commitment): boolean
}

export interface LatestBlockhash {
  readonly blockhash: string
  /** The slot at which it was read (the context). */
  readonly slot: number
  readonly lastValidBlockHeight: number
}

export interface AccountReads extends Pick<SlotReads, 'slot' | 'stateSlot'> {
  /** Null when there is no such account; one of 0 lamports does not exist. */
  account(pubkey: Uint8Array, commitment: Commitment): AccountState | null
}

/** A transaction of a complete block. */
export interface Landed {
  readonly slot: number
  /** Its position in the block. */
  readonly index: number
  /** Seconds since 1970. */
  readonly blockTime: number
  readonly content: TransactionContent
}

/** A complete block. */
export interface LandedBlock {
  readonly parentSlot: number
  readonly blockhash: string
  readonly previousBlockhash: string
  readonly blockHeight: number
  /** Seconds since 1970. */
  readonly blockTime: number
  readonly rewards: readonly RewardContent[]
  /** Decodes every transaction of the block. */
  transactions(): readonly { readonly content: TransactionContent }[]
  /** Signatures alone, without decoding. */
  signatures(): readonly Uint8Array[]
}

export interface HistoryReads extends Pick<SlotReads, 'slot' | 'stateSlot'> {
  /** Of any commitment, also in the open slot; null when it did not land. */
  signatureStatus(signature: Uint8Array): SignatureStatus | null
  /** Null when it is in no block with at least that commitment. */
  landed(signature: Uint8Array, commitment: Commitment): Landed | null
  /** A block with at least that commitment, or why there is none. */
  landedBlock(slot: number | bigint, commitment: Commitment): LandedBlock | RpcError
}

export interface FeeReads {
  /** Of the last confirmed blocks, ascending; with accounts, what it took to write all of them.
   *  `isPaid`: the rates that were paid, not those that were offered. */
  prioritizationFees(accounts: readonly Uint8Array[], isPaid: boolean): readonly BlockFee[]
}

/** A source of answers: a node, or the stream of a set. */
export interface Source<Reads> {
  readonly ledger: Reads
  /** As in getVersion; included in every context. */
  readonly apiVersion: string
  /** Read only where an answer depends on them: a stream may not know them. */
  readonly shapes: Shapes
}
