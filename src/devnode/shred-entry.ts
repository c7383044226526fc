// Encodes entry batches, the content of data shreds' joined payloads.
//
//   count u64 | entry … entry: hashes u64 | hash 32 | transactions u64 | transaction bytes …
//
// A batch ends with the shred that is marked complete; it begins after the previous such shred, or
// at index 0. A transaction is written in its wire format.
import type { EntryContent, TransactionContent } from '../chain/solana/geyser-content.ts'
import { transactionBytes } from '../chain/solana/wire.ts'

const countBytes = 8
const entryHeadBytes = 48
const hashBytes = 32

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
    parts.push(head, ...own.map(transactionBytes))
  }
  return Buffer.concat(parts)
}

function u64(value: number): Uint8Array {
  const bytes = new Uint8Array(countBytes)
  new DataView(bytes.buffer).setBigUint64(0, BigInt(value), true)
  return bytes
}
