// A landed transaction as JSON text, in each encoding. Thread: main.
// Used by transactions.ts and blocks.ts.

import { jsonText, ReadyJson } from '../../../base/json-text.ts'
import type { RpcError } from '../../../jsonrpc/build.ts'
import { encodeBase58 } from '../../../solana/base58.ts'
import type { MessageContent } from '../../../solana/geyser-content.ts'
import { parsedInstruction } from '../../../solana/json-parsed/instructions.ts'
import { parsedKeys } from '../../../solana/json-parsed/message-keys.ts'
import { keyText } from '../../../solana/key-text.ts'
import type { LedgerTransaction } from '../ledger/ledger.ts'
import { base64 } from './encode-account.ts'
import { metaText } from './encode-meta.ts'
import { rpcFaults } from './errors.ts'
import { choiceOf, type Fields } from './params.ts'

export const transactionEncodings = ['binary', 'base64', 'base58', 'json', 'jsonParsed'] as const
export type TransactionEncoding = (typeof transactionEncodings)[number]
export const transactionDetails = ['full', 'signatures', 'none', 'accounts'] as const
export type TransactionDetails = (typeof transactionDetails)[number]

export interface TransactionFormat {
  readonly encoding: TransactionEncoding
  /** Null: the client knows legacy transactions only and is told no version. */
  readonly versionMax: number | null
  readonly hasRewards: boolean
}

/** Instructions of the message itself stand at this height, those they call above it. */
const messageStackHeight = 1

/** `encoding` and `maxSupportedTransactionVersion` of a config. */
export function transactionFormatOf(fields: Fields): TransactionFormat {
  return {
    encoding: choiceOf(fields.params, fields.text('encoding'), transactionEncodings) ?? 'json',
    versionMax: fields.u64('maxSupportedTransactionVersion'),
    hasRewards: true,
  }
}

/** `{meta, transaction, version}`, or the error for a version that the client does not know. */
export function transactionText(
  transaction: LedgerTransaction,
  format: TransactionFormat,
  details: 'full' | 'accounts' = 'full',
): string | RpcError {
  const { version } = transaction
  if (version >= 0 && version > (format.versionMax ?? -1))
    return rpcFaults.unsupportedVersion(version)
  const isParsed = format.encoding === 'jsonParsed'
  const meta = metaText(transaction, { isParsed, hasRewards: format.hasRewards, details })
  const body = details === 'accounts' ? accountsText(transaction) : bodyText(transaction, format)
  const shown = format.versionMax === null ? '' : `,"version":${version < 0 ? '"legacy"' : version}`
  return `{"meta":${meta},"transaction":${body}${shown}}`
}

function bodyText(transaction: LedgerTransaction, { encoding }: TransactionFormat): string {
  const { bytes } = transaction
  switch (encoding) {
    case 'binary':
      return `"${encodeBase58(bytes)}"`
    case 'base58':
      return `["${encodeBase58(bytes)}","base58"]`
    case 'base64':
      return `["${base64(bytes)}","base64"]`
    case 'json':
    case 'jsonParsed':
      return jsonText({
        message: encoding === 'json' ? plainMessage(transaction) : parsedMessage(transaction),
        signatures: signatureTexts(transaction),
      })
  }
}

function accountsText(transaction: LedgerTransaction): string {
  return jsonText({
    accountKeys: parsedKeys(transaction.content.message, transaction.meta),
    signatures: signatureTexts(transaction),
  })
}

function plainMessage({ content }: LedgerTransaction) {
  const { message } = content
  return {
    accountKeys: message.accountKeys.map(keyText),
    addressTableLookups: lookups(message),
    header: {
      numReadonlySignedAccounts: message.numReadonlySignedAccounts,
      numReadonlyUnsignedAccounts: message.numReadonlyUnsignedAccounts,
      numRequiredSignatures: message.numRequiredSignatures,
    },
    instructions: message.instructions.map(({ accounts, data, programIdIndex }) => ({
      accounts: [...accounts],
      data: encodeBase58(data),
      programIdIndex,
      stackHeight: messageStackHeight,
    })),
    recentBlockhash: encodeBase58(message.recentBlockhash),
  }
}

function parsedMessage({ content, keys, meta }: LedgerTransaction) {
  const { message } = content
  return {
    accountKeys: parsedKeys(message, meta),
    addressTableLookups: lookups(message),
    instructions: message.instructions.map((instruction) =>
      parsedInstruction(instruction, keys, messageStackHeight),
    ),
    recentBlockhash: encodeBase58(message.recentBlockhash),
  }
}

function lookups({ addressTableLookups, versioned }: MessageContent) {
  if (!versioned) return undefined
  return addressTableLookups.map(({ accountKey, readonlyIndexes, writableIndexes }) => ({
    accountKey: keyText(accountKey),
    readonlyIndexes: [...readonlyIndexes],
    writableIndexes: [...writableIndexes],
  }))
}

function signatureTexts({ content }: LedgerTransaction): ReadyJson {
  const texts = content.signatures.map((signature) => `"${encodeBase58(signature)}"`)
  return new ReadyJson(`[${texts.join(',')}]`)
}
