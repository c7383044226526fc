// RPC methods on landed transactions and their blocks: getSignatureStatuses, getTransaction,
// getBlock.
import { Commitment, commitmentNames } from '../../base/commitment.ts'
import { jsonText, objectText } from '../../base/json-text.ts'
import { type Answer, encodedText, failure, type RpcError } from '../../base/jsonrpc/build.ts'
import { inTurns, whenDone } from '../../base/steps.ts'
import { encodeBase58 } from '../solana/base58.ts'
import type { TransactionContent } from '../solana/geyser-content.ts'
import { rewardsText } from '../solana/ui-meta.ts'
import {
  isShowable,
  type TransactionView,
  transactionDetails,
  transactionEncodings,
  transactionMembers,
  versionOf,
} from '../solana/ui-transaction.ts'
import type { SignatureStatus } from '../solana/updates.ts'
import type { Shapes } from '../solana/version.ts'
import type { HistoryReads, LandedBlock, Source } from './chain-reads.ts'
import { rpcFaults } from './errors.ts'
import { ParamFields, type Params } from './params.ts'
import { type Answering, answering, historyViewOf, inContext } from './view.ts'

const statusesMax = 256
/** Without `searchTransactionHistory` a validator knows as many slots as it keeps blockhashes. */
const statusSlots = 300
/** About a millisecond of work. */
export const transactionsPerTurn = 16

export function historyMethods(source: Source<HistoryReads>) {
  const { ledger } = source
  return {
    getSignatureStatuses: answering({ least: 1, most: 2 }, (params) => {
      const signatures = params.texts(0, statusesMax).map((text) => params.signatureOf(text))
      const config = params.config(1, 'RpcSignatureStatusConfig')
      if (params.at(1) !== null) config.require('searchTransactionHistory')
      const hasHistory = config.flag('searchTransactionHistory') === true
      return () => {
        const slot = ledger.stateSlot(Commitment.processed)
        const oldestSlot = hasHistory ? 0 : slot - statusSlots
        const texts = signatures.map((signature) => {
          const status = ledger.signatureStatus(signature)
          return status === null || status.slot < oldestSlot ? 'null' : statusText(status)
        })
        return inContext(source, slot, `[${texts.join(',')}]`)
      }
    }),
    getTransaction: answering({ least: 1, most: 2 }, (params) => {
      const signature = params.signature(0)
      const [config, shown] = encodingConfigOf(params, 'RpcTransactionConfig')
      const { commitment } = historyViewOf(config, ledger)
      // Details and rewards are a block's to choose.
      const view: TransactionView = { ...shown, details: 'full', showRewards: true }
      return () => {
        const found = ledger.landed(signature, commitment)
        if (found === null) return encodedText('null')
        const { blockTime, slot, index, content } = found
        const where = [`"blockTime":${blockTime}`, `"slot":${slot}`, `"transactionIndex":${index}`]
        const text = transactionText(content, view, source.shapes, ...where)
        return typeof text === 'string' ? encodedText(text) : failure(text)
      }
    }),
    getBlock: answering({ least: 1, most: 2 }, (params) => {
      const slot = params.exactU64(0)
      const [config, view] = encodingConfigOf(params, 'RpcBlockConfig')
      const { commitment } = historyViewOf(config, ledger)
      return () => {
        const found = ledger.landedBlock(slot, commitment)
        return 'code' in found ? failure(found) : blockAnswer(found, view, source.shapes)
      }
    }),
  } satisfies Readonly<Record<string, Answering>>
}

function statusText({ commitment, confirmations, err, slot }: SignatureStatus): string {
  return jsonText({
    confirmationStatus: commitmentNames[commitment],
    confirmations,
    err,
    slot,
    status: err === null ? { Ok: null } : { Err: err },
  })
}

function blockAnswer(
  block: LandedBlock,
  view: TransactionView,
  shapes: Shapes,
): Answer | Promise<Answer> {
  const parts = [
    `"blockHeight":${block.blockHeight}`,
    `"blockTime":${block.blockTime}`,
    `"blockhash":"${block.blockhash}"`,
    `"parentSlot":${block.parentSlot}`,
    `"previousBlockhash":"${block.previousBlockhash}"`,
  ]
  if (view.showRewards) parts.push(`"rewards":${rewardsText(block.rewards, view)}`)
  if (view.details === 'signatures') {
    const list = block.signatures().map((signature) => `"${encodeBase58(signature)}"`)
    parts.push(`"signatures":[${list.join(',')}]`)
  }
  if (view.details === 'none' || view.details === 'signatures')
    return encodedText(`{${parts.join(',')}}`)
  const texts = inTurns(block.transactions(), transactionsPerTurn, ({ content }) =>
    transactionText(content, view, shapes),
  )
  return whenDone(texts, (list) => {
    const problem = list.find((text) => typeof text !== 'string')
    if (problem !== undefined) return failure(problem)
    return encodedText(`{${parts.join(',')},"transactions":[${list.join(',')}]}`)
  })
}

// Landed transactions in answers: which form a config selects, and the text.

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
  shapes: Shapes,
  ...also: readonly string[]
): string | RpcError {
  if (!isShowable(content, view)) return rpcFaults.unsupportedVersion(versionOf(content))
  return objectText([...also, ...transactionMembers(content, view, shapes)], view.isSorted)
}
