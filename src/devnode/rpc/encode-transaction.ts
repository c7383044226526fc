// Landed transactions in answers: which form a config selects, and the text. Thread: main.
import type { RpcError } from '../../jsonrpc/build.ts'
import {
  isShowable,
  type TransactionView,
  transactionDetails,
  transactionEncodings,
  uiTransactionText,
} from '../../solana/ui-transaction.ts'
import { rpcFaults } from '../../solana-rpc/errors.ts'
import { Fields, type Params } from '../../solana-rpc/params.ts'
import type { LedgerTransaction } from '../ledger/ledger.ts'

/** `encoding` and its companions of a config. */
function transactionViewOf(fields: Fields): TransactionView {
  return {
    encoding: fields.choice('encoding', transactionEncodings) ?? 'json',
    details: fields.choice('transactionDetails', transactionDetails) ?? 'full',
    showRewards: fields.flag('rewards') !== false,
    versionMax: fields.u64('maxSupportedTransactionVersion', 'u8'),
  }
}

/** The config after a slot or signature: an object, or an encoding alone, as of old clients. */
export function encodingConfigOf(params: Params, struct: string): [Fields, TransactionView] {
  return params.untagged('RpcEncodingConfigWrapper', () => {
    const second = params.at(1)
    const config =
      typeof second === 'string'
        ? new Fields(params, { encoding: second })
        : params.config(1, struct)
    return [config, transactionViewOf(config)]
  })
}

/** `{transaction, meta, version}`, or the error for a version that the client does not know. */
export function transactionText(
  { content, version }: LedgerTransaction,
  view: TransactionView,
): string | RpcError {
  if (!isShowable(content, view)) return rpcFaults.unsupportedVersion(version)
  return uiTransactionText(content, view)
}
