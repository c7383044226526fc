// What a simulation tells. Thread: main. Called by chain.ts.
import { Commitment } from '../base/commitment.ts'
import { keyOf } from '../solana/keys.ts'
import type { TransactionLayout } from '../solana/transaction.ts'
import type { TransactionError } from '../solana/transaction-error.ts'
import type { Simulated } from './embedded-chain.ts'
import { feeOf } from './fee.ts'
import { metaOf } from './landing.ts'
import type { LedgerState } from './ledger/state.ts'
import { messageContent } from './message-content.ts'
import type { Executed } from './protocol.ts'

/** `layout` holds the transaction of `bytes`. */
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
  const slot = ledger.slot(Commitment.processed)
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

/** The outcome of a transaction that never reached the VM. */
export function failedBefore(err: TransactionError): Executed {
  return {
    err,
    isCharged: false,
    logs: [],
    units: 0n,
    inner: [],
    returnData: null,
    loadedWritable: [],
    loadedReadonly: [],
    accounts: [],
  }
}
