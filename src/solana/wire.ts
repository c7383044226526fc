// Encodes a transaction's plain values into its original wire bytes. Thread: any (pure).
//
//   n signatures | version byte 0x80 (v0 only) | header[3] | n keys | blockhash[32]
//   | n instructions: program u8, n accounts, n data | n lookups (v0 only); every n is compact-u16
import type { TransactionContent } from './geyser-content.ts'

/** First byte of a v0 message; a legacy one begins with its count of signatures. */
const VERSION_ZERO = 0x80

export function transactionBytes({ signatures, message }: TransactionContent): Buffer {
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
