// What the embedded chain offers besides the port that every chain has. Thread: main (types only).
// Implemented by chain.ts; used by embedded/rpc/ and the topology.
import type { Commitment } from '../base/commitment.ts'
import type { Outcome } from '../base/errors.ts'
import type { MetaContent } from '../solana/geyser-content.ts'
import type { TransactionError } from '../solana/transaction-error.ts'
import type { SolanaChain } from '../solana/updates.ts'
import type { Ledger, LedgerAccount } from './ledger/ledger.ts'

export interface SimulateOptions {
  /** Takes the newest blockhash instead of the transaction's own. */
  readonly isBlockhashReplaced: boolean
  /** Verifies signatures first: refused `invalid`, code `signature-verification`. */
  readonly isVerified: boolean
}

export interface Simulated {
  /** The slot it ran on. */
  readonly slot: number
  readonly err: TransactionError | null
  readonly logs: readonly string[]
  readonly unitsConsumed: bigint
  readonly innerInstructions: NonNullable<MetaContent['innerInstructions']>
  readonly returnData: MetaContent['returnData']
  readonly fee: bigint
  readonly loadedWritableAddresses: readonly Uint8Array[]
  readonly loadedReadonlyAddresses: readonly Uint8Array[]
  readonly preBalances: readonly bigint[]
  readonly postBalances: readonly bigint[]
  readonly preTokenBalances: MetaContent['preTokenBalances']
  readonly postTokenBalances: MetaContent['postTokenBalances']
  /** Bytes of all accounts it loaded. */
  readonly loadedAccountsDataSize: number
  /** Set when the blockhash was replaced. */
  readonly replacementBlockhash: {
    readonly blockhash: string
    readonly lastValidBlockHeight: number
  } | null
  /** An account as it would be afterwards; null when it would not exist. */
  account(pubkey: Uint8Array): LedgerAccount | null
}

export interface EmbeddedChain extends SolanaChain {
  readonly source: 'embedded'
  readonly ledger: Ledger
  /**
   * Runs a transaction on the processed state without keeping anything. Refusals: `invalid`
   * (bytes or signatures), `unavailable`. What the chain itself would refuse (an unknown blockhash,
   * a duplicate) is `err` in the outcome, as agave tells it.
   */
  simulate(transaction: Uint8Array, options: SimulateOptions): Promise<Outcome<Simulated>>
  /** A signed transfer from the faucet. Refused `rejected` when it has not that much. */
  requestAirdrop(to: Uint8Array, lamports: bigint): Promise<Outcome<Uint8Array>>
  /**
   * Fee of a message (without signatures) in lamports; null when its blockhash is not valid.
   * Refused `invalid` for bytes that are no message.
   */
  feeForMessage(message: Uint8Array, blockhashAt: Commitment): Outcome<bigint | null>
}
