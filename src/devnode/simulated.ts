// The outcome of a simulation. Thread: main of the devnode.
import { Commitment } from '../base/commitment.ts'
import { keyOf } from '../chain/solana/base58.ts'
import type { MetaContent } from '../chain/solana/geyser-decode.ts'
import type { TransactionLayout } from '../chain/solana/transaction.ts'
import type { TransactionError } from '../chain/solana/transaction-error.ts'
import type { Fee } from './fee.ts'
import { metaOf } from './landing.ts'
import type { LedgerAccount } from './ledger/ledger.ts'
import type { LedgerState } from './ledger/state.ts'
import { messageContent } from './message-content.ts'
import type { Executed } from './svm.ts'

export interface SimulateOptions {
  /** Takes the newest blockhash instead of the transaction's own. */
  readonly isBlockhashReplaced: boolean
  /** Verifies signatures first: `err` is SignatureFailure. */
  readonly mustVerify: boolean
}

export interface Simulated {
  /** The slot it ran on. */
  readonly slot: number
  readonly err: TransactionError | null
  readonly logs: readonly string[]
  readonly unitsConsumed: bigint
  /** Null when it never ran. */
  readonly innerInstructions: MetaContent['innerInstructions']
  readonly returnData: MetaContent['returnData']
  /** Null for one that the chain does not take: it pays nothing. */
  readonly fee: bigint | null
  readonly loadedWritableAddresses: readonly Uint8Array[]
  readonly loadedReadonlyAddresses: readonly Uint8Array[]
  /** Null when its signatures did not verify: nothing was read. */
  readonly balances: Pick<
    MetaContent,
    'preBalances' | 'postBalances' | 'preTokenBalances' | 'postTokenBalances'
  > | null
  /** Bytes of all accounts it loaded, as SetLoadedAccountsDataSizeLimit counts them. */
  readonly loadedAccountsDataSize: number
  /** Set when the blockhash was replaced. */
  readonly replacementBlockhash: {
    readonly blockhash: string
    readonly lastValidBlockHeight: number
  } | null
  /** An account as it would be afterwards; null when it would not exist. */
  account(pubkey: Uint8Array): LedgerAccount | null
}

/** `layout` is the parsed transaction of `bytes`. */
export function simulatedOf(
  layout: TransactionLayout,
  bytes: Uint8Array,
  outcome: {
    readonly executed: Executed
    readonly fee: Fee
    readonly ledger: LedgerState
    readonly isBlockhashReplaced: boolean
  },
): Simulated {
  const { executed, fee, ledger, isBlockhashReplaced } = outcome
  const slot = ledger.stateSlot(Commitment.processed)
  const { loadedWritable, loadedReadonly, accounts } = executed
  const keys = [...messageContent(layout, bytes).accountKeys, ...loadedWritable, ...loadedReadonly]
  const meta = metaOf(layout, { executed, keys, fee, ledger })
  const written = new Map(accounts.map((account) => [keyOf(account.pubkey), account]))
  const { blockhash, lastValidBlockHeight } = ledger.latestBlockhash(Commitment.processed)
  return {
    slot,
    err: executed.err,
    logs: executed.logs ?? [],
    unitsConsumed: executed.units,
    innerInstructions: executed.inner,
    returnData: executed.returnData,
    fee: executed.isCharged ? meta.fee : null,
    loadedWritableAddresses: loadedWritable,
    loadedReadonlyAddresses: loadedReadonly,
    balances: executed.err === 'SignatureFailure' ? null : meta,
    loadedAccountsDataSize: executed.loadedBytes,
    replacementBlockhash: isBlockhashReplaced ? { blockhash, lastValidBlockHeight } : null,
    account(pubkey) {
      const after = written.get(keyOf(pubkey))
      if (after === undefined) return ledger.account(pubkey, Commitment.processed)
      return after.lamports === 0n ? null : { ...after, slot, writeVersion: 0n }
    },
  }
}
