// Formats a transaction with its outcome as the JSON text of JSON-RPC.
// Balances and fees are u64 and written as plain digits.
import { jsonText, objectText, sortedMembers } from '../../base/json-text.ts'
import { encodeBase58 } from './base58.ts'
import type {
  InstructionContent,
  MessageContent,
  MetaContent,
  TransactionContent,
} from './geyser-content.ts'
import { parsedInstruction } from './json-parsed/instructions.ts'
import { keyText } from './key-text.ts'
import { metaText, simpleMetaText } from './ui-meta.ts'
import type { Shapes } from './version.ts'
import { transactionBytes } from './wire.ts'
import { writeLocks } from './write-locks.ts'

export const transactionEncodings = ['binary', 'base64', 'base58', 'json', 'jsonParsed'] as const
export type TransactionEncoding = (typeof transactionEncodings)[number]
export const transactionDetails = ['full', 'signatures', 'none', 'accounts'] as const
export type TransactionDetails = (typeof transactionDetails)[number]

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
