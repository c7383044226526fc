// RPC methods that read a chain at a commitment: accounts, landed transactions, fees, slots.
import { Commitment, commitmentNames } from '../../base/commitment.ts'
import { jsonText, objectText } from '../../base/json-text.ts'
import { type Answer, encodedText, failure, type RpcError } from '../../base/jsonrpc/build.ts'
import { inTurns, whenDone } from '../../base/steps.ts'
import { encodeBase58 } from '../solana/base58.ts'
import type { AccountState, TransactionContent } from '../solana/geyser-decode.ts'
import { accountParser } from '../solana/json-parsed/accounts.ts'
import type { ReadAccount } from '../solana/json-parsed/parsed.ts'
import { tokenUnit } from '../solana/json-parsed/token-accounts.ts'
import { readTokenAccount, type TokenUnit, uiTokenAmount } from '../solana/token-account.ts'
import type { AccountEncoding, AccountView } from '../solana/ui-account.ts'
import { accountEncodings, base58DataBytesMax, sortedAccountText } from '../solana/ui-account.ts'
import type { TransactionView } from '../solana/ui-transaction.ts'
import {
  isShowable,
  rewardsText,
  transactionDetails,
  transactionEncodings,
  transactionMembers,
  versionOf,
} from '../solana/ui-transaction.ts'
import type { SignatureStatus } from '../solana/updates.ts'
import type { Shapes } from '../solana/version.ts'
import type {
  AccountReads,
  FeeReads,
  HistoryReads,
  LandedBlock,
  SlotReads,
  Source,
} from './chain-reads.ts'
import type { Answering, Params, View } from './params.ts'
import {
  answering,
  commitmentViewOf,
  historyViewOf,
  inContext,
  ParamFields,
  rpcFaults,
  slotViewOf,
  viewOf,
} from './params.ts'

// RPC methods that read accounts by their keys: getBalance, getAccountInfo, getMultipleAccounts,
// getTokenAccountBalance.

const multipleAccountsMax = 100

export function accountMethods(source: Source<AccountReads>) {
  const { ledger } = source
  const readerAt = (view: View) => (pubkey: Uint8Array) => ledger.account(pubkey, view.commitment)
  return {
    getBalance: answering({ least: 1, most: 2 }, (params) => {
      const key = params.key(0)
      const view = viewOf(params.config(1, 'RpcContextConfig'), ledger)
      return () =>
        inContext(source, view.slot, String(ledger.account(key, view.commitment)?.lamports ?? 0n))
    }),
    getAccountInfo: answering({ least: 1, most: 2 }, (params) => {
      const key = params.key(0)
      const config = params.config(1, 'RpcAccountInfoConfig')
      const view = viewOf(config, ledger)
      const format = accountViewOf(config, 'binary')
      return () => {
        const account = ledger.account(key, view.commitment)
        if (account === null) return inContext(source, view.slot, 'null')
        const text = accountText(account, format, readerAt(view), source)
        return text === null
          ? failure(rpcFaults.base58TooLarge)
          : inContext(source, view.slot, text)
      }
    }),
    getMultipleAccounts: answering({ least: 1, most: 2 }, (params) => {
      const keys = params.texts(0, multipleAccountsMax).map((text) => params.keyOf(text))
      const config = params.config(1, 'RpcAccountInfoConfig')
      const view = viewOf(config, ledger)
      const format = accountViewOf(config, 'base64')
      return () => {
        const accounts = keys.map((key) => ledger.account(key, view.commitment))
        const texts = accounts.map((account) =>
          account === null ? 'null' : accountText(account, format, readerAt(view), source),
        )
        if (texts.includes(null)) return failure(rpcFaults.base58TooLarge)
        return inContext(source, view.slot, `[${texts.join(',')}]`)
      }
    }),
    getTokenAccountBalance: answering({ least: 1, most: 2 }, (params) => {
      const key = params.key(0)
      const view = commitmentViewOf(params, 1, ledger)
      const account = ledger.account(key, view.commitment)
      const token = account === null ? null : readTokenAccount(account.owner, account.data)
      if (account === null) params.fail('Invalid param: could not find account')
      else if (token === null) params.fail('Invalid param: not a Token account')
      const unit = token === null ? null : unitOf(params, token.mint, readerAt(view))
      return () =>
        inContext(
          source,
          view.slot,
          jsonText(uiTokenAmount(token!.amount, unit!.decimals, unit!.scaled)),
        )
    }),
  } satisfies Readonly<Record<string, Answering>>
}

/** How amounts of a mint are shown; an address that is no mint is refused. */
export function unitOf(params: Params, mint: Uint8Array, read: ReadAccount): TokenUnit | null {
  const unit = tokenUnit(mint, read)
  if (unit === null)
    params.fail(
      read(mint) === null
        ? 'Invalid param: could not find mint'
        : 'Invalid param: Token mint could not be unpacked',
    )
  return unit
}

// Accounts in answers: which form a config selects, and the text.

/** Texts of accounts that were read are cached, up to this many bytes of data each. */
const texts = new WeakMap<AccountState, string>()
const keptBytesMax = 4_096

/** Finds another account at the same moment. */
export type ReadState = (pubkey: Uint8Array) => AccountState | null

/** `encoding` and `dataSlice` of a config. */
export function accountViewOf(fields: ParamFields, fallback: AccountEncoding): AccountView {
  const encoding = fields.choice('encoding', accountEncodings) ?? fallback
  const slice = fields.fields('dataSlice', 'UiDataSliceConfig')
  if (slice === null) return { encoding, dataSlice: null }
  const offset = slice.u64('offset')
  const length = slice.u64('length')
  if (offset === null) fields.params.fail('Invalid params: missing field `offset`.')
  if (length === null) fields.params.fail('Invalid params: missing field `length`.')
  return { encoding, dataSlice: { offset: offset ?? 0, length: length ?? 0 } }
}

/** Null when the data is too long for base58, which a validator refuses. */
export function accountText(
  account: AccountState,
  view: AccountView,
  read: ReadState,
  source: Pick<Source<unknown>, 'shapes'>,
): string | null {
  const { encoding, dataSlice } = view
  if (encoding === 'binary' || encoding === 'base58') {
    const left = Math.max(0, account.data.length - (dataSlice?.offset ?? 0))
    if (Math.min(left, dataSlice?.length ?? left) > base58DataBytesMax) return null
  }
  if (encoding === 'base64' && dataSlice === null && account.data.length <= keptBytesMax)
    return keptText(account, view)
  const parse = encoding === 'jsonParsed' ? accountParser(read, source.shapes) : () => null
  return sortedAccountText(account, view, parse)
}

/** A version of an account never changes, so its text is built once and goes when it goes. */
function keptText(account: AccountState, view: AccountView): string {
  const known = texts.get(account)
  if (known !== undefined) return known
  const text = sortedAccountText(account, view, () => null)
  texts.set(account, text)
  return text
}

// RPC methods on landed transactions and their blocks: getSignatureStatuses, getTransaction,
// getBlock.

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
function encodingConfigOf(params: Params, struct: string): [ParamFields, TransactionView] {
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
function transactionText(
  content: TransactionContent,
  view: TransactionView,
  shapes: Shapes,
  ...also: readonly string[]
): string | RpcError {
  if (!isShowable(content, view)) return rpcFaults.unsupportedVersion(versionOf(content))
  return objectText([...also, ...transactionMembers(content, view, shapes)], view.isSorted)
}

// The RPC method getRecentPrioritizationFees.

const addressesMax = 128

export function feeMethods(source: Source<FeeReads>) {
  return {
    getRecentPrioritizationFees: answering({ least: 0, most: 1 }, (params) => {
      const texts = params.at(0) === null ? [] : params.texts(0, addressesMax)
      const keys = texts.map((text) => params.keyOf(text))
      return () => {
        const rows = source.ledger
          .prioritizationFees(keys, source.shapes.feeRateOfPaid)
          .map(({ slot, rate }) => `{"prioritizationFee":${rate},"slot":${slot}}`)
        return encodedText(`[${rows.join(',')}]`)
      }
    }),
  } satisfies Readonly<Record<string, Answering>>
}

// RPC methods on slots and blockhashes: getSlot, getBlockHeight, getLatestBlockhash,
// isBlockhashValid.

export function slotMethods(source: Source<SlotReads>) {
  const { ledger } = source
  return {
    getSlot: answering({ least: 0, most: 1 }, (params) => {
      const { slot } = slotViewOf(params.config(0, 'RpcContextConfig'), ledger)
      return () => encodedText(String(slot))
    }),
    getBlockHeight: answering({ least: 0, most: 1 }, (params) => {
      const { commitment } = slotViewOf(params.config(0, 'RpcContextConfig'), ledger)
      return () => encodedText(String(ledger.blockHeight(commitment)))
    }),
    getLatestBlockhash: answering({ least: 0, most: 1 }, (params) => {
      const { commitment } = slotViewOf(params.config(0, 'RpcContextConfig'), ledger)
      return () => {
        const { blockhash, lastValidBlockHeight, slot } = ledger.latestBlockhash(commitment)
        const value = `{"blockhash":"${blockhash}","lastValidBlockHeight":${lastValidBlockHeight}}`
        return inContext(source, slot, value)
      }
    }),
    isBlockhashValid: answering({ least: 1, most: 2 }, (params) => {
      const blockhash = params.hash(0)
      const view = slotViewOf(params.config(1, 'RpcContextConfig'), ledger)
      return () =>
        inContext(source, view.slot, String(ledger.isBlockhashValid(blockhash, view.commitment)))
    }),
  } satisfies Readonly<Record<string, Answering>>
}
