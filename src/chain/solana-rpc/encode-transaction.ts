// Landed transactions in answers: which form a config selects, and the text.
import { objectText } from '../../base/json-text.ts'
import type { RpcError } from '../../base/jsonrpc/build.ts'
import type { TransactionContent } from '../solana/geyser-content.ts'
import {
  isShowable,
  type TransactionView,
  transactionDetails,
  transactionEncodings,
  transactionMembers,
  versionOf,
} from '../solana/ui-transaction.ts'
import { rpcFaults } from './errors.ts'
import { ParamFields, type Params } from './params.ts'

/** `encoding` and its companions of a config. */
function transactionViewOf(fields: ParamFields): TransactionView {
  return {
    encoding: fields.choice('encoding', transactionEncodings) ?? 'json',
    details: fields.choice('transactionDetails', transactionDetails) ?? 'full',
    showRewards: fields.flag('rewards') !== false,
    versionMax: fields.u64('maxSupportedTransactionVersion', 'u8'),
    isSorted: true,
  }
}

/** The config after a slot or signature: an object, or an encoding alone, as of old clients. */
export function encodingConfigOf(params: Params, struct: string): [ParamFields, TransactionView] {
  return params.untagged('RpcEncodingConfigWrapper', () => {
    const second = params.at(1)
    const config =
      typeof second === 'string'
        ? new ParamFields(params, { encoding: second })
        : params.config(1, struct)
    return [config, transactionViewOf(config)]
  })
}

/** `{transaction, meta, version}` and `also`; an error for a version the client does not know. */
export function transactionText(
  content: TransactionContent,
  view: TransactionView,
  ...also: readonly string[]
): string | RpcError {
  if (!isShowable(content, view)) return rpcFaults.unsupportedVersion(versionOf(content))
  return objectText([...also, ...transactionMembers(content, view)], view.isSorted)
}
