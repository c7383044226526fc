// The outcome of a simulation. Thread: main of the devnode.
import { Commitment } from '../base/commitment.ts'
import type { MetaContent } from '../solana/geyser-content.ts'
import { keyOf } from '../solana/keys.ts'
import type { TransactionLayout } from '../solana/transaction.ts'
import type { TransactionError } from '../solana/transaction-error.ts'
import type { Executed } from './executed.ts'
import { feeOf } from './fee.ts'
import { metaOf } from './landing.ts'
import type { LedgerAccount } from './ledger/ledger.ts'
import type { LedgerState } from './ledger/state.ts'
import { messageContent } from './message-content.ts'

export interface SimulateOptions {
  /** Takes the newest blockhash instead of the transaction's own. */
  readonly isBlockhashReplaced: boolean
  /** Verifies signatures first: refused `invalid`, code `signature-verification`. */
  readonly mustVerify: boolean
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

/** `layout` is the parsed transaction of `bytes`. */
export function simulatedOf(
  layout: TransactionLayout,
  bytes: Uint8Array,
  outcome: {
    readonly executed: Executed
    readonly ledger: LedgerState
    readonly isBlockhashReplaced: boolean
  },
): Simulated {
  const { executed, ledger, isBlockhashReplaced } = outcome
  const slot = ledger.stateSlot(Commitment.processed)
  const { loadedWritable, loadedReadonly, accounts } = executed
  const keys = [...messageContent(layout, bytes).accountKeys, ...loadedWritable, ...loadedReadonly]
  const fee = feeOf(layout, bytes).lamports
  const meta = metaOf(layout, { executed, keys, fee, ledger })
  const written = new Map(accounts.map((account) => [keyOf(account.pubkey), account]))
  const { blockhash, lastValidBlockHeight } = ledger.latestBlockhash(Commitment.processed)
  return {
    slot,
    err: executed.err,
    logs: executed.logs,
    unitsConsumed: executed.units,
    innerInstructions: executed.inner,
    returnData: executed.returnData,
    fee: meta.fee,
    loadedWritableAddresses: loadedWritable,
    loadedReadonlyAddresses: loadedReadonly,
    preBalances: meta.preBalances,
    postBalances: meta.postBalances,
    preTokenBalances: meta.preTokenBalances,
    postTokenBalances: meta.postTokenBalances,
    loadedAccountsDataSize: keys.reduce(
      (bytesSoFar, key) => bytesSoFar + (ledger.newestAccount(key)?.data.length ?? 0),
      0,
    ),
    replacementBlockhash: isBlockhashReplaced ? { blockhash, lastValidBlockHeight } : null,
    account(pubkey) {
      const after = written.get(keyOf(pubkey))
      if (after === undefined) return ledger.account(pubkey, Commitment.processed)
      return after.lamports === 0n ? null : { ...after, slot, writeVersion: 0n }
    },
  }
}
