// Encodes a transaction's plain values into its original wire bytes.
//
//   n signatures | version byte 0x80 (v0 only) | header[3] | n keys | blockhash[32]
//   | n instructions: program u8, n accounts, n data | n lookups (v0 only); every n is compact-u16
//   v1: as in transaction.ts
import type { TransactionConfigContent, TransactionContent } from './geyser-decode.ts'

/** First byte of a v0 message; a legacy one begins with its count of signatures. */
const VERSION_ZERO = 0x80
/** First byte of a v1 transaction. */
const VERSION_ONE = 0x81

export function transactionBytes(content: TransactionContent): Buffer {
  const { signatures, message } = content
  if (message.config !== null) return bytesOfV1(content, message.config)
  const parts: Uint8Array[] = [compact(signatures.length), ...signatures]
  if (message.versioned) parts.push(Uint8Array.of(VERSION_ZERO))
  parts.push(
    Uint8Array.of(
      message.numRequiredSignatures,
      message.numReadonlySignedAccounts,
      message.numReadonlyUnsignedAccounts,
    ),
    compact(message.accountKeys.length),
    ...message.accountKeys,
    message.recentBlockhash,
    compact(message.instructions.length),
  )
  for (const { programIdIndex, accounts, data } of message.instructions)
    parts.push(Uint8Array.of(programIdIndex), ...counted(accounts), ...counted(data))
  if (message.versioned) {
    parts.push(compact(message.addressTableLookups.length))
    for (const { accountKey, writableIndexes, readonlyIndexes } of message.addressTableLookups)
      parts.push(accountKey, ...counted(writableIndexes), ...counted(readonlyIndexes))
  }
  return Buffer.concat(parts)
}

function bytesOfV1(
  { signatures, message }: TransactionContent,
  config: TransactionConfigContent,
): Buffer {
  const { priorityFee, computeUnitLimit, loadedAccountsDataSizeLimit, heapSize } = config
  const values = [computeUnitLimit, loadedAccountsDataSizeLimit, heapSize]
  const mask = values.reduce<number>(
    (bits, value, index) => (value === null ? bits : bits | (4 << index)),
    priorityFee === null ? 0 : 3,
  )
  const fee = Buffer.alloc(priorityFee === null ? 0 : 8)
  if (priorityFee !== null) fee.writeBigUInt64LE(priorityFee)
  const { instructions, accountKeys } = message
  return Buffer.concat([
    Uint8Array.of(
      VERSION_ONE,
      message.numRequiredSignatures,
      message.numReadonlySignedAccounts,
      message.numReadonlyUnsignedAccounts,
    ),
    u32(mask),
    message.recentBlockhash,
    Uint8Array.of(instructions.length, accountKeys.length),
    ...accountKeys,
    fee,
    ...values.flatMap((value) => (value === null ? [] : [u32(value)])),
    ...instructions.map(({ programIdIndex, accounts, data }) =>
      Uint8Array.of(programIdIndex, accounts.length, data.length & 0xff, data.length >> 8),
    ),
    ...instructions.flatMap(({ accounts, data }) => [accounts, data]),
    ...signatures,
  ])
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}

/** Bytes after their length. */
export function counted(bytes: Uint8Array): [Uint8Array, Uint8Array] {
  return [compact(bytes.length), bytes]
}

/** compact-u16: one to three bytes of seven bits. */
function compact(count: number): Uint8Array {
  if (count < 0x80) return Uint8Array.of(count)
  if (count < 0x4000) return Uint8Array.of((count & 0x7f) | 0x80, count >> 7)
  return Uint8Array.of((count & 0x7f) | 0x80, ((count >> 7) & 0x7f) | 0x80, count >> 14)
}
