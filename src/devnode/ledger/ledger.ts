// The read interface of the embedded chain's ledger, for the JSON-RPC methods. Thread: main of the
// devnode (types only). Every read is synchronous and consistent. Returned bytes are shared, not
// copied: they must not be changed.
//
// Keys of maps and parameters named `key` are binary strings (`keyOf(bytes)`), not base58.
import type { Commitment } from '../../base/commitment.ts'
import type {
  AccountState,
  EntryContent,
  MetaContent,
  TransactionContent,
} from '../../chain/solana/geyser-decode.ts'
import type { TransactionError } from '../../chain/solana/transaction-error.ts'
import type { SignatureStatus } from '../../chain/solana/updates.ts'
import type { Shapes } from '../../chain/solana/version.ts'
import type { FeeReads, LandedBlock, SlotReads } from '../../chain/solana-rpc/chain-reads.ts'
import type { EpochSchedule } from './epoch-schedule.ts'

export interface SignatureRange {
  readonly limit: number
  readonly before: Uint8Array | null
  readonly until: Uint8Array | null
  readonly commitment: Commitment
  /** Decide which memo programs are known. */
  readonly shapes: Shapes
}

/** One version of an account. An account of 0 lamports does not exist and is never returned. */
export interface LedgerAccount extends AccountState {
  /** The slot that wrote this version. */
  readonly slot: number
  readonly writeVersion: bigint
}

/** A transaction in the history. `content` is decoded from its stored form at each read. */
export interface LedgerTransaction {
  readonly signature: Uint8Array
  /** As it came over the wire. */
  readonly bytes: Uint8Array
  readonly slot: number
  readonly index: number
  /** -1 for legacy, else 0 or 1. */
  readonly version: number
  readonly err: TransactionError | null
  /** Message and meta as plain values: err, fee, balances, inner instructions, logs, units… */
  readonly content: TransactionContent
  /** `content.meta`; `err` inside it is bincode, the JSON form is `err` above. */
  readonly meta: MetaContent
  /** Static keys, then loaded writable, then loaded readonly ones. */
  readonly keys: readonly Uint8Array[]
  readonly blockTime: number
}

/** A complete block. */
export interface LedgerBlock extends LandedBlock {
  readonly slot: number
  readonly entries: readonly EntryContent[]
  readonly transactionCount: number
  transactions(): LedgerTransaction[]
}

export interface SignatureInfo {
  readonly signature: Uint8Array
  readonly slot: number
  /** Its position in the block. */
  readonly index: number
  readonly err: TransactionError | null
  /** Seconds since 1970. */
  readonly blockTime: number
  readonly commitment: Commitment
  /** Memo program texts as RPC shows them (`[5] hello; [2] hi`); null without any. */
  readonly memo: string | null
}

export interface PerformanceSample {
  readonly slot: number
  readonly numTransactions: number
  readonly numNonVoteTransactions: number
  readonly numSlots: number
  readonly samplePeriodSecs: number
}

/** Which token accounts: all of an owner, of a mint, or those a delegate may spend from. */
export type TokenIndex = 'owner' | 'mint' | 'delegate'

/** Processed reads of state see the open slot. */
export interface Ledger extends SlotReads, FeeReads {
  /** Base58 of the genesis hash; the same for the life of the data folder. */
  readonly genesisHash: string
  /** Base58 of this node's identity. */
  readonly identity: string
  /** Base58 of the faucet's key: the funder of airdrops. */
  readonly faucet: string
  readonly epochSchedule: EpochSchedule

  /** Transactions since genesis, votes included (there are none). */
  transactionCount(commitment: Commitment): number
  /** All lamports there are. */
  supply(commitment: Commitment): bigint
  /** Least balance that exempts an account of so many bytes from rent. */
  rentExemptMinimum(dataBytes: number): bigint

  account(pubkey: Uint8Array, commitment: Commitment): LedgerAccount | null
  accountsByOwner(owner: Uint8Array, commitment: Commitment): IterableIterator<LedgerAccount>
  /** SPL Token and Token-2022 accounts (not mints). */
  tokenAccounts(
    index: TokenIndex,
    key: Uint8Array,
    commitment: Commitment,
  ): IterableIterator<LedgerAccount>
  /** Every account. Slow: for getLargestAccounts. */
  accounts(commitment: Commitment): IterableIterator<LedgerAccount>

  /** Null: skipped, not complete yet, or evicted from the history. */
  block(slot: number): LedgerBlock | null
  /** Oldest slot whose block is kept. */
  readonly firstAvailableSlot: number
  /** Slots of complete blocks from `from` to `to`, both included; at most `limit`. */
  blockSlots(
    range: { readonly from: number; readonly to: number; readonly limit: number },
    commitment: Commitment,
  ): number[]
  /** Whether the slot's block is finalized, confirmed or only processed; null when not complete. */
  blockCommitment(slot: number): Commitment | null

  transaction(signature: Uint8Array): LedgerTransaction | null
  /** Also of the open slot; callers look at `commitment` or `confirmations`. */
  signatureStatus(signature: Uint8Array): SignatureStatus | null
  /**
   * Newest first, at most `limit`, of blocks with at least that commitment. `before` and `until`
   * are signatures, both excluded; an unknown `before` gives none.
   */
  signaturesForAddress(address: Uint8Array, options: SignatureRange): SignatureInfo[]

  /** Newest first, one a minute, at most 720. */
  performanceSamples(limit: number): PerformanceSample[]
}
