// What the shared RPC methods read of a chain, at a commitment. Thread: any (types only).
// Every read is synchronous, and those of one call are consistent.
import type { Commitment } from '../base/commitment.ts'
import type { AccountState } from '../solana/geyser-content.ts'

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

/** A source of answers: a node, or the stream of a set. */
export interface Source<Reads> {
  readonly ledger: Reads
  /** As in getVersion; included in every context. */
  readonly apiVersion: string
}
