// Reads the config values of a transaction of version 1.
import type { TransactionConfigContent } from './geyser-decode.ts'
import type { TransactionLayout } from './transaction.ts'

/** The values in the bytes that `layout` was decoded from; null for any other version. */
export function configOf(
  layout: TransactionLayout,
  bytes: Uint8Array,
): TransactionConfigContent | null {
  if (layout.version !== 1) return null
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  const { configMask: mask } = layout
  let at = layout.configAt
  const u32 = (bit: number) => {
    if (((mask >> bit) & 1) === 0) return null
    at += 4
    return view.readUInt32LE(at - 4)
  }
  let priorityFee: bigint | null = null
  if ((mask & 3) === 3) {
    priorityFee = view.readBigUInt64LE(at)
    at += 8
  }
  return {
    priorityFee,
    computeUnitLimit: u32(2),
    loadedAccountsDataSizeLimit: u32(3),
    heapSize: u32(4),
  }
}
