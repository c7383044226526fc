// Encodes entry batches, the content of data shreds' joined payloads. Thread: any (pure).
//
//   count u64 | entry … entry: hashes u64 | hash 32 | transactions u64 | transaction bytes …
//
// A batch ends with the shred that is marked complete; it begins after the previous such shred, or
// at index 0. A transaction is written in its wire format.
import type { EntryContent, MessageContent, TransactionContent } from './geyser-content.ts'

const countBytes = 8
const entryHeadBytes = 48
const hashBytes = 32
/** First byte of a v0 message; a legacy one begins with its count of signatures. */
const v0Prefix = 0x80

/** A batch of entries; `transactions` are those of the slot, in order. */
export function encodeEntries(
  entries: readonly EntryContent[],
  transactions: readonly TransactionContent[],
): Uint8Array {
  const parts: Uint8Array[] = [u64(entries.length)]
  for (const entry of entries) {
    const head = new Uint8Array(entryHeadBytes)
    const view = new DataView(head.buffer)
    view.setBigUint64(0, BigInt(entry.numHashes), true)
    head.set(entry.hash.subarray(0, hashBytes), countBytes)
    const start = entry.startingTransactionIndex
    const own = transactions.slice(start, start + entry.executedTransactionCount)
    view.setBigUint64(countBytes + hashBytes, BigInt(own.length), true)
    parts.push(head, ...own.map(encodeTransaction))
  }
  return Buffer.concat(parts)
}

/** A transaction in its wire format. */
export function encodeTransaction({ signatures, message }: TransactionContent): Uint8Array {
  return Buffer.concat([compact(signatures.length), ...signatures, ...messageParts(message)])
}

function messageParts(message: MessageContent): Uint8Array[] {
  const { accountKeys, instructions, addressTableLookups } = message
  const parts: Uint8Array[] = [
    ...(message.versioned ? [Uint8Array.of(v0Prefix)] : []),
    Uint8Array.of(
      message.numRequiredSignatures,
      message.numReadonlySignedAccounts,
      message.numReadonlyUnsignedAccounts,
    ),
    compact(accountKeys.length),
    ...accountKeys,
    message.recentBlockhash,
    compact(instructions.length),
  ]
  for (const { programIdIndex, accounts, data } of instructions)
    parts.push(Uint8Array.of(programIdIndex), ...counted(accounts), ...counted(data))
  if (!message.versioned) return parts
  parts.push(compact(addressTableLookups.length))
  for (const { accountKey, writableIndexes, readonlyIndexes } of addressTableLookups)
    parts.push(accountKey, ...counted(writableIndexes), ...counted(readonlyIndexes))
  return parts
}

function counted(bytes: Uint8Array): Uint8Array[] {
  return [compact(bytes.length), bytes]
}

/** A length in one to three bytes of seven bits. */
function compact(value: number): Uint8Array {
  if (value < 0x80) return Uint8Array.of(value)
  if (value < 0x4000) return Uint8Array.of((value & 0x7f) | 0x80, value >> 7)
  return Uint8Array.of((value & 0x7f) | 0x80, ((value >> 7) & 0x7f) | 0x80, value >> 14)
}

function u64(value: number): Uint8Array {
  const bytes = new Uint8Array(countBytes)
  new DataView(bytes.buffer).setBigUint64(0, BigInt(value), true)
  return bytes
}
