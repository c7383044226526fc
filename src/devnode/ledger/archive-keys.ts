// Keys of the archive's rows, big-endian, so that they sort by slot and index, and their sizes.
import type { Position } from './stored-transaction.ts'

/** Pages are partly empty, and rows have headers: measured. */
const fillFactor = 1.6
const rowBytes = 24

export function u64(value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(BigInt(Math.max(0, Math.round(value))))
  return bytes
}

export const slotKey = u64

export function slotIn(key: Buffer): number {
  return Number(key.readBigUInt64BE())
}

export function positionKey({ slot, index }: Position): Buffer {
  const key = Buffer.alloc(12)
  key.writeBigUInt64BE(BigInt(slot))
  key.writeUInt32BE(index, 8)
  return key
}

export function addressKey(address: Uint8Array, position: Buffer): Buffer {
  return Buffer.concat([address, position])
}

/** Half of it is as unique as a hash; a reader compares the whole. */
export function signatureKey(signature: Uint8Array): Buffer {
  return Buffer.from(signature.subarray(0, 32))
}

export function rangeOf(slot: number): { start: Buffer; end: Buffer } {
  return { start: slotKey(slot), end: slotKey(slot + 1) }
}

/** Of all rows of a transaction. */
export function transactionSize(
  { record }: { readonly record: Uint8Array },
  keyCount: number,
): number {
  return sizeOf(record.length + 64) + sizeOf(44) * keyCount
}

/** Of a row on disk, about. */
export function sizeOf(bytes: number): number {
  return (bytes + rowBytes) * fillFactor
}
