// Converts a decoded transaction into plain values.
import type { MessageContent } from '../chain/solana/geyser-decode.ts'
import type { TransactionLayout } from '../chain/solana/transaction.ts'
import { configOf } from '../chain/solana/transaction-config.ts'

/** The message that `layout` found in `bytes`; everything in it is a view of them. */
export function messageContent(layout: TransactionLayout, bytes: Uint8Array): MessageContent {
  const span = (at: number, length: number) => bytes.subarray(at, at + length)
  return {
    numRequiredSignatures: layout.requiredSignatures,
    numReadonlySignedAccounts: layout.readonlySigned,
    numReadonlyUnsignedAccounts: layout.readonlyUnsigned,
    accountKeys: staticKeys(layout, bytes),
    recentBlockhash: span(layout.blockhashAt, 32),
    instructions: Array.from({ length: layout.instructionCount }, (_, index) => ({
      programIdIndex: layout.programIndex[index]!,
      accounts: span(layout.accountsAt[index]!, layout.accountsCount[index]!),
      data: span(layout.dataAt[index]!, layout.dataLength[index]!),
    })),
    versioned: layout.version >= 0,
    config: configOf(layout, bytes),
    addressTableLookups: Array.from({ length: layout.lookupCount }, (_, index) => ({
      accountKey: span(layout.lookupTableAt[index]!, 32),
      writableIndexes: span(layout.lookupWritableAt[index]!, layout.lookupWritableCount[index]!),
      readonlyIndexes: span(layout.lookupReadonlyAt[index]!, layout.lookupReadonlyCount[index]!),
    })),
  }
}

export function staticKeys(layout: TransactionLayout, bytes: Uint8Array): Uint8Array[] {
  return Array.from({ length: layout.keyCount }, (_, index) =>
    bytes.subarray(layout.keysAt + index * 32, layout.keysAt + index * 32 + 32),
  )
}

export function signaturesOf(layout: TransactionLayout, bytes: Uint8Array): Uint8Array[] {
  return Array.from({ length: layout.signatureCount }, (_, index) =>
    bytes.subarray(layout.signaturesAt + index * 64, layout.signaturesAt + index * 64 + 64),
  )
}
