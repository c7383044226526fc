// Landed transactions in answers: which form a config selects, and the text. Thread: main.
import type { RpcError } from '../../jsonrpc/build.ts'
import {
  isShowable,
  type TransactionView,
  transactionDetails,
  transactionEncodings,
  uiTransactionText,
} from '../../solana/ui-transaction.ts'
import type { LedgerTransaction } from '../ledger/ledger.ts'
import { rpcFaults } from './errors.ts'
import type { Fields } from './params.ts'

/** `encoding` and its companions of a config. */
export function transactionViewOf(fields: Fields): TransactionView {
  return {
    encoding: fields.choice('encoding', transactionEncodings) ?? 'json',
    details: fields.choice('transactionDetails', transactionDetails) ?? 'full',
    showRewards: fields.flag('rewards') !== false,
    versionMax: fields.u64('maxSupportedTransactionVersion'),
  }
}

/** `{transaction, meta, version}`, or the error for a version that the client does not know. */
export function transactionText(
  { content, version }: LedgerTransaction,
  view: TransactionView,
): string | RpcError {
  if (!isShowable(content, view)) return rpcFaults.unsupportedVersion(version)
  return uiTransactionText(content, view)
}
