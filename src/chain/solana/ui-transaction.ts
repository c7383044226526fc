// Formats a transaction with its outcome as the JSON text of JSON-RPC.
// Balances and fees are u64 and written as plain digits.
import { jsonText, objectText, sortedMembers } from '../../base/json-text.ts'
import { encodeBase58, keyText } from './base58.ts'
import type {
  InstructionContent,
  MessageContent,
  MetaContent,
  RewardContent,
  TokenBalanceContent,
  TransactionContent,
} from './geyser-decode.ts'
import { parsedInstruction } from './json-parsed/instructions.ts'
import { uiTokenAmount } from './token-account.ts'
import { decodeTransactionError } from './transaction-error.ts'
import type { Shapes } from './version.ts'
import { transactionBytes } from './wire.ts'
import { writeLocks } from './write-locks.ts'

export const transactionEncodings = ['binary', 'base64', 'base58', 'json', 'jsonParsed'] as const
export type TransactionEncoding = (typeof transactionEncodings)[number]
export const transactionDetails = ['full', 'signatures', 'none', 'accounts'] as const
type TransactionDetails = (typeof transactionDetails)[number]

const legacy = -1

export interface TransactionView {
  readonly encoding: TransactionEncoding
  readonly details: TransactionDetails
  readonly showRewards: boolean
  /** Null shows only legacy transactions. */
  readonly versionMax: number | null
  /** Members sorted by name, as in answers; notifications have them in the order of a type. */
  readonly isSorted: boolean
}

/** True when the view may show the transaction at all. */
export function isShowable(content: TransactionContent, { versionMax }: TransactionView) {
  return versionOf(content) <= (versionMax ?? legacy)
}

/** -1 for a legacy transaction, else 0 or 1. */
export function versionOf({ message }: TransactionContent): number {
  if (!message.versioned) return legacy
  return message.config === null ? 0 : 1
}

/** `{"transaction":…,"meta":…,"version":…}` for the details `full` and `accounts`. */
export function uiTransactionText(
  content: TransactionContent,
  view: TransactionView,
  shapes: Shapes,
): string {
  return objectText(transactionMembers(content, view, shapes), view.isSorted)
}

/** The same members, each with its name. */
export function transactionMembers(
  content: TransactionContent,
  view: TransactionView,
  shapes: Shapes,
): string[] {
  const isFull = view.details === 'full'
  const transaction = isFull ? fullText(content, view, shapes) : keysOnlyText(content, view)
  const meta = isFull
    ? metaText(content, view, (instruction) => innerText(instruction, content, view, shapes))
    : simpleMetaText(content, view)
  const members = [`"transaction":${transaction}`, `"meta":${meta}`]
  // Without maxSupportedTransactionVersion the client knows no versions: omit the member.
  const number = versionOf(content)
  if (view.versionMax !== null) members.push(`"version":${number === legacy ? '"legacy"' : number}`)
  return members
}

function keysOnlyText(content: TransactionContent, { isSorted }: TransactionView): string {
  const signatures = `"signatures":${base58List(content.signatures)}`
  return objectText([signatures, `"accountKeys":${keysText(content)}`], isSorted)
}

function fullText(content: TransactionContent, view: TransactionView, shapes: Shapes): string {
  switch (view.encoding) {
    case 'binary':
      return `"${encodeBase58(transactionBytes(content))}"`
    case 'base58':
      return `["${encodeBase58(transactionBytes(content))}","base58"]`
    case 'base64':
      return `["${transactionBytes(content).toString('base64')}","base64"]`
    case 'json':
    case 'jsonParsed': {
      const message =
        view.encoding === 'json' ? rawMembers(content, view) : parsedMembers(content, shapes)
      message.push(...versionMembers(content.message, view))
      const signatures = `"signatures":${base58List(content.signatures)}`
      const text = `"message":${objectText(message, view.isSorted)}`
      return objectText([signatures, text], view.isSorted)
    }
  }
}

function rawMembers({ message }: TransactionContent, view: TransactionView): string[] {
  const header = [
    `"numRequiredSignatures":${message.numRequiredSignatures}`,
    `"numReadonlySignedAccounts":${message.numReadonlySignedAccounts}`,
    `"numReadonlyUnsignedAccounts":${message.numReadonlyUnsignedAccounts}`,
  ]
  const instructions = message.instructions.map((one) => compiledText(one, 1, view))
  return [
    `"header":${objectText(header, view.isSorted)}`,
    `"accountKeys":[${message.accountKeys.map((key) => `"${keyText(key)}"`)}]`,
    `"recentBlockhash":"${keyText(message.recentBlockhash)}"`,
    `"instructions":[${instructions.join(',')}]`,
  ]
}

function parsedMembers(content: TransactionContent, shapes: Shapes): string[] {
  const { message } = content
  const keys = allKeys(content)
  const instructions = message.instructions.map((one) =>
    jsonText(parsedInstruction(one, keys, 1, shapes)),
  )
  return [
    `"accountKeys":${keysText(content)}`,
    `"recentBlockhash":"${keyText(message.recentBlockhash)}"`,
    `"instructions":[${instructions.join(',')}]`,
  ]
}

function innerText(
  instruction: InstructionContent & { readonly stackHeight?: number },
  content: TransactionContent,
  view: TransactionView,
  shapes: Shapes,
): string {
  const height = instruction.stackHeight ?? null
  if (view.encoding !== 'jsonParsed') return compiledText(instruction, height, view)
  return jsonText(parsedInstruction(instruction, allKeys(content), height, shapes))
}

function compiledText(
  instruction: InstructionContent,
  stackHeight: number | null,
  { isSorted }: TransactionView,
): string {
  const members = [
    `"programIdIndex":${instruction.programIdIndex}`,
    `"accounts":[${instruction.accounts.join(',')}]`,
    `"data":"${encodeBase58(instruction.data)}"`,
    `"stackHeight":${stackHeight}`,
  ]
  return objectText(members, isSorted)
}

function keysText({ message, meta }: TransactionContent): string {
  return jsonText(parsedKeys(message, meta))
}

/** What only some versions have: lookups, or the config. */
function versionMembers(
  { versioned, config, addressTableLookups }: MessageContent,
  { isSorted }: TransactionView,
): string[] {
  if (!versioned) return []
  if (config !== null)
    return [`"transactionConfig":${jsonText(isSorted ? sortedMembers(config) : config)}`]
  const lookups = addressTableLookups.map((lookup) => {
    const members = [
      `"accountKey":"${keyText(lookup.accountKey)}"`,
      `"writableIndexes":[${lookup.writableIndexes.join(',')}]`,
      `"readonlyIndexes":[${lookup.readonlyIndexes.join(',')}]`,
    ]
    return objectText(members, isSorted)
  })
  return [`"addressTableLookups":[${lookups.join(',')}]`]
}

function allKeys({ message, meta }: TransactionContent): Uint8Array[] {
  return [...message.accountKeys, ...meta.loadedWritableAddresses, ...meta.loadedReadonlyAddresses]
}

function base58List(list: readonly Uint8Array[]): string {
  return `[${list.map((bytes) => `"${encodeBase58(bytes)}"`).join(',')}]`
}

function parsedKeys(
  message: MessageContent,
  loaded: Pick<MetaContent, 'loadedReadonlyAddresses' | 'loadedWritableAddresses'>,
) {
  const { accountKeys, numRequiredSignatures } = message
  const keys = [
    ...accountKeys,
    ...loaded.loadedWritableAddresses,
    ...loaded.loadedReadonlyAddresses,
  ]
  const locks = writeLocks(message, loaded)
  return keys.map((key, index) => ({
    pubkey: keyText(key),
    signer: index < numRequiredSignatures,
    source: index < accountKeys.length ? 'transaction' : 'lookupTable',
    writable: locks[index]!,
  }))
}

// Formats the outcome of a transaction (`meta`) and a block's rewards as JSON-RPC does.

/** How objects are written: sorted by name in answers, in a type's order in notifications. */
interface Written {
  readonly isSorted: boolean
}

type WriteInner = (instruction: InstructionContent & { readonly stackHeight?: number }) => string

/**
 * The full meta. Rewards are null unless requested, as a validator does; `jsonParsed` has the
 * loaded addresses among the keys of the message only.
 */
function metaText(
  { meta }: TransactionContent,
  view: { readonly showRewards: boolean; readonly encoding: string } & Written,
  writeInner: WriteInner,
): string {
  const members = [
    ...headMembers(meta),
    `"innerInstructions":${innersText(meta.innerInstructions, writeInner)}`,
    `"logMessages":${meta.logMessages === null ? 'null' : JSON.stringify(meta.logMessages)}`,
    ...balanceMembers(meta, view),
    `"rewards":${view.showRewards ? rewardsText(meta.rewards, view) : 'null'}`,
  ]
  if (view.encoding !== 'jsonParsed') members.push(`"loadedAddresses":${loadedText(meta, view)}`)
  if (meta.returnData !== null)
    members.push(`"returnData":${returnDataText(meta.returnData, view)}`)
  if (meta.computeUnitsConsumed !== null)
    members.push(`"computeUnitsConsumed":${meta.computeUnitsConsumed}`)
  if (meta.costUnits !== null) members.push(`"costUnits":${meta.costUnits}`)
  return objectText(members, view.isSorted)
}

/** The addresses loaded from lookup tables. */
export function loadedText(
  meta: Pick<MetaContent, 'loadedReadonlyAddresses' | 'loadedWritableAddresses'>,
  { isSorted }: Written,
): string {
  const list = (keys: readonly Uint8Array[]) => `[${keys.map((key) => `"${keyText(key)}"`)}]`
  const writable = `"writable":${list(meta.loadedWritableAddresses)}`
  return objectText([writable, `"readonly":${list(meta.loadedReadonlyAddresses)}`], isSorted)
}

export function returnDataText(returned: MetaContent['returnData'], { isSorted }: Written): string {
  if (returned === null) return 'null'
  const data = Buffer.from(returned.data).toString('base64')
  const programId = `"programId":"${keyText(returned.programId)}"`
  return objectText([programId, `"data":["${data}","base64"]`], isSorted)
}

/** The meta of transaction details `accounts`. */
function simpleMetaText({ meta }: TransactionContent, written: Written): string {
  return objectText([...headMembers(meta), ...balanceMembers(meta, written)], written.isSorted)
}

export function rewardsText(rewards: readonly RewardContent[], written: Written): string {
  return `[${rewards.map((reward) => rewardText(reward, written)).join(',')}]`
}

/** The TransactionError as JSON; null for success. */
export function errText(err: Uint8Array | null): string {
  return err === null ? 'null' : JSON.stringify(decodeTransactionError(err) ?? 'UnknownError')
}

function headMembers(meta: MetaContent): string[] {
  const err = errText(meta.err)
  return [
    `"err":${err}`,
    `"status":${meta.err === null ? '{"Ok":null}' : `{"Err":${err}}`}`,
    `"fee":${meta.fee}`,
    `"preBalances":[${meta.preBalances.join(',')}]`,
    `"postBalances":[${meta.postBalances.join(',')}]`,
  ]
}

function innersText(inner: MetaContent['innerInstructions'], write: WriteInner): string {
  if (inner === null) return 'null'
  const groups = inner.map(
    ({ index, instructions }) =>
      `{"index":${index},"instructions":[${instructions.map(write).join(',')}]}`,
  )
  return `[${groups.join(',')}]`
}

function balanceMembers(
  { preTokenBalances, postTokenBalances }: MetaContent,
  written: Written,
): string[] {
  const list = (balances: readonly TokenBalanceContent[]) =>
    `[${balances.map((balance) => tokenBalanceText(balance, written)).join(',')}]`
  return [
    `"preTokenBalances":${list(preTokenBalances)}`,
    `"postTokenBalances":${list(postTokenBalances)}`,
  ]
}

/** Stored outcomes have no zero among their floats: it is null there, and only there. */
export function tokenBalanceText(balance: TokenBalanceContent, { isSorted }: Written): string {
  const { accountIndex, mint, owner, programId } = balance
  const amount = uiTokenAmount(BigInt(balance.amount), balance.decimals)
  const shown = { ...amount, uiAmount: amount.uiAmount === 0 ? null : amount.uiAmount }
  const members = [
    `"accountIndex":${accountIndex}`,
    `"mint":${JSON.stringify(mint)}`,
    `"uiTokenAmount":${JSON.stringify(shown)}`,
    `"owner":${JSON.stringify(owner)}`,
    `"programId":${JSON.stringify(programId)}`,
  ]
  return objectText(members, isSorted)
}

const rewardTypes = [null, 'Fee', 'Rent', 'Staking', 'Voting', 'DeactivatedStake'] as const

function rewardText(reward: RewardContent, { isSorted }: Written): string {
  const { commission, commissionBps, rewardType: type } = reward
  const members = [
    `"pubkey":${JSON.stringify(reward.pubkey)}`,
    `"lamports":${reward.lamports}`,
    `"postBalance":${reward.postBalance}`,
    // A type that has no name here is shown by its number.
    `"rewardType":${JSON.stringify(rewardTypes[type] === undefined ? type : rewardTypes[type])}`,
    `"commission":${commission === '' ? 'null' : commission}`,
  ]
  if (commissionBps !== '') members.push(`"commissionBps":${commissionBps}`)
  return objectText(members, isSorted)
}
