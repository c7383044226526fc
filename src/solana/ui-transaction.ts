// Formats a transaction with its outcome as the JSON text of JSON-RPC. Thread: any (pure).
// Balances and fees are u64 and written as plain digits.
import { jsonText } from '../base/json-text.ts'
import { encodeBase58 } from './base58.ts'
import type { InstructionContent, MessageContent, TransactionContent } from './geyser-content.ts'
import { parsedInstruction } from './json-parsed/instructions.ts'
import { parsedKeys } from './json-parsed/message-keys.ts'
import { metaText, simpleMetaText } from './ui-meta.ts'
import { transactionBytes } from './wire.ts'

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
export function uiTransactionText(content: TransactionContent, view: TransactionView): string {
  const isFull = view.details === 'full'
  const transaction = isFull
    ? fullText(content, view.encoding)
    : `{"signatures":${base58List(content.signatures)},"accountKeys":${keysText(content)}}`
  const meta = isFull
    ? metaText(content, view, (instruction) => innerText(instruction, content, view))
    : simpleMetaText(content)
  // Without maxSupportedTransactionVersion the client knows no versions: omit the member.
  const number = versionOf(content)
  const shown = number === legacy ? '"legacy"' : number
  const version = view.versionMax === null ? '' : `,"version":${shown}`
  return `{"transaction":${transaction},"meta":${meta}${version}}`
}

function fullText(content: TransactionContent, encoding: TransactionEncoding): string {
  switch (encoding) {
    case 'binary':
      return `"${encodeBase58(transactionBytes(content))}"`
    case 'base58':
      return `["${encodeBase58(transactionBytes(content))}","base58"]`
    case 'base64':
      return `["${transactionBytes(content).toString('base64')}","base64"]`
    case 'json':
      return `{"signatures":${base58List(content.signatures)},"message":${rawMessage(content)}}`
    case 'jsonParsed': {
      const message = parsedMessage(content)
      return `{"signatures":${base58List(content.signatures)},"message":${message}}`
    }
  }
}

function rawMessage({ message }: TransactionContent): string {
  const instructions = message.instructions.map((one) => compiledText(one, 1)).join(',')
  return (
    `{"header":{"numRequiredSignatures":${message.numRequiredSignatures},` +
    `"numReadonlySignedAccounts":${message.numReadonlySignedAccounts},` +
    `"numReadonlyUnsignedAccounts":${message.numReadonlyUnsignedAccounts}},` +
    `"accountKeys":${base58List(message.accountKeys)},` +
    `"recentBlockhash":"${encodeBase58(message.recentBlockhash)}",` +
    `"instructions":[${instructions}]${versionText(message)}}`
  )
}

function parsedMessage(content: TransactionContent): string {
  const { message } = content
  const keys = allKeys(content)
  const instructions = message.instructions.map((one) => jsonText(parsedInstruction(one, keys, 1)))
  return (
    `{"accountKeys":${keysText(content)},` +
    `"recentBlockhash":"${encodeBase58(message.recentBlockhash)}",` +
    `"instructions":[${instructions.join(',')}]${versionText(message)}}`
  )
}

function innerText(
  instruction: InstructionContent & { readonly stackHeight?: number },
  content: TransactionContent,
  { encoding }: TransactionView,
): string {
  const height = instruction.stackHeight ?? null
  if (encoding !== 'jsonParsed') return compiledText(instruction, height)
  return jsonText(parsedInstruction(instruction, allKeys(content), height))
}

function compiledText(instruction: InstructionContent, stackHeight: number | null): string {
  return (
    `{"programIdIndex":${instruction.programIdIndex},` +
    `"accounts":[${instruction.accounts.join(',')}],` +
    `"data":"${encodeBase58(instruction.data)}","stackHeight":${stackHeight}}`
  )
}

function keysText({ message, meta }: TransactionContent): string {
  return jsonText(parsedKeys(message, meta))
}

/** What only some versions have: lookups, or the config. */
function versionText({ versioned, config, addressTableLookups }: MessageContent): string {
  if (!versioned) return ''
  if (config !== null) return `,"transactionConfig":${jsonText(config)}`
  const lookups = addressTableLookups.map((lookup) => {
    const key = encodeBase58(lookup.accountKey)
    const writable = lookup.writableIndexes.join(',')
    const readonly = lookup.readonlyIndexes.join(',')
    return `{"accountKey":"${key}","writableIndexes":[${writable}],"readonlyIndexes":[${readonly}]}`
  })
  return `,"addressTableLookups":[${lookups.join(',')}]`
}

function allKeys({ message, meta }: TransactionContent): Uint8Array[] {
  return [...message.accountKeys, ...meta.loadedWritableAddresses, ...meta.loadedReadonlyAddresses]
}

function base58List(list: readonly Uint8Array[]): string {
  return `[${list.map((bytes) => `"${encodeBase58(bytes)}"`).join(',')}]`
}
