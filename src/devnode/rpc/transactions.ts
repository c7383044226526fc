// RPC methods on the history of transactions: getTransaction, getSignaturesForAddress,
// getSignatureStatuses. Thread: main.
import { Commitment, commitmentNames } from '../../base/commitment.ts'
import { jsonText } from '../../base/json-text.ts'
import { encodedText, failure } from '../../jsonrpc/build.ts'
import { encodeBase58 } from '../../solana/base58.ts'
import type { TransactionView } from '../../solana/ui-transaction.ts'
import type { SignatureStatus } from '../../solana/updates.ts'
import { rpcFaults } from '../../solana-rpc/errors.ts'
import { type Answering, answering, historyViewOf, inContext } from '../../solana-rpc/view.ts'
import type { Ledger, LedgerTransaction } from '../ledger/ledger.ts'
import { encodingConfigOf, transactionText } from './encode-transaction.ts'
import type { RpcNode } from './rpc-node.ts'

const signaturesMax = 1_000
const statusesMax = 256
/** Without `searchTransactionHistory` a validator knows as many slots as it keeps blockhashes. */
const statusSlots = 300

export function transactionMethods(node: RpcNode): Readonly<Record<string, Answering>> {
  const { ledger } = node
  return {
    getTransaction: answering({ least: 1, most: 2 }, (params) => {
      const signature = params.signature(0)
      const [config, shown] = encodingConfigOf(params, 'RpcTransactionConfig')
      const { commitment } = historyViewOf(config, ledger)
      // Details and rewards are a block's to choose.
      const view: TransactionView = { ...shown, details: 'full', showRewards: true }
      return () => {
        const found = ledger.transaction(signature)
        const reached = found === null ? null : ledger.blockCommitment(found.slot)
        if (found === null || reached === null || reached < commitment) return encodedText('null')
        const text = transactionText(found, view)
        return typeof text === 'string' ? encodedText(placed(found, text)) : failure(text)
      }
    }),
    getSignaturesForAddress: signaturesForAddress(ledger),
    getSignatureStatuses: answering({ least: 1, most: 2 }, (params) => {
      const signatures = params.texts(0, statusesMax).map((text) => params.signatureOf(text))
      const config = params.config(1, 'RpcSignatureStatusConfig')
      if (params.at(1) !== null) config.require('searchTransactionHistory')
      const hasHistory = config.flag('searchTransactionHistory') === true
      return () => {
        const slot = ledger.stateSlot(Commitment.processed)
        const oldest = hasHistory ? 0 : slot - statusSlots
        const texts = signatures.map((signature) => statusText(signature, oldest))
        return inContext(node, slot, `[${texts.join(',')}]`)
      }
    }),
  }

  function statusText(signature: Uint8Array, oldestSlot: number): string {
    const status = ledger.signatureStatus(signature)
    if (status === null || status.slot < oldestSlot) return 'null'
    const { err } = status
    return jsonText({
      confirmationStatus: commitmentNames[status.commitment],
      confirmations: status.confirmations,
      err,
      slot: status.slot,
      status: err === null ? { Ok: null } : { Err: err },
    })
  }
}

function signaturesForAddress(ledger: Ledger): Answering {
  return answering({ least: 1, most: 2 }, (params) => {
    const address = params.key(0)
    const config = params.config(1, 'RpcSignaturesForAddressConfig')
    const { commitment } = historyViewOf(config, ledger)
    const before = config.text('before')
    const until = config.text('until')
    const limit = config.u64('limit', 'usize') ?? signaturesMax
    if (limit === 0 || limit > signaturesMax) params.fail(`Invalid limit; max ${signaturesMax}`)
    const options = {
      limit,
      commitment,
      before: before === null ? null : params.signatureOf(before),
      until: until === null ? null : params.signatureOf(until),
    }
    return () => {
      for (const signature of [options.before, options.until])
        if (signature !== null && !isReached(ledger.signatureStatus(signature), commitment))
          return failure(rpcFaults.transactionNotFound(encodeBase58(signature)))
      return encodedText(
        jsonText(
          ledger.signaturesForAddress(address, options).map((info) => ({
            blockTime: info.blockTime,
            confirmationStatus: commitmentNames[info.commitment],
            err: info.err,
            memo: info.memo,
            signature: encodeBase58(info.signature),
            slot: info.slot,
            transactionIndex: info.index,
          })),
        ),
      )
    }
  })
}

/** A validator refuses to page from a transaction that it does not have. */
function isReached(status: SignatureStatus | null, commitment: Commitment): boolean {
  return status !== null && status.commitment >= commitment
}

/** Adds where and when it landed. */
function placed({ blockTime, slot, index }: LedgerTransaction, text: string): string {
  return `{"blockTime":${blockTime},"slot":${slot},"transactionIndex":${index},${text.slice(1)}`
}
