// Resolves the addresses that a v0 transaction loads from lookup tables.
//
//   table: type u32 | deactivated u64 | extended u64 | start u8 | authority option 1 + [32] | pad 2
//          | addresses [32]… from byte 56 on
import type { TransactionLayout } from '../chain/solana/transaction.ts'

const lookupTableHeadBytes = 56

/** The runtime's errors of a table that cannot be used. */
export const lookupErrors = [
  'AddressLookupTableNotFound',
  'InvalidAddressLookupTableOwner',
  'InvalidAddressLookupTableData',
  'InvalidAddressLookupTableIndex',
]

export interface LookedUp {
  readonly writable: readonly Uint8Array[]
  readonly readonly: readonly Uint8Array[]
}

/** Null when a table is missing or too short: the runtime then reports the error. */
export function lookedUp(
  layout: TransactionLayout,
  bytes: Uint8Array,
  tableOf: (pubkey: Uint8Array) => Uint8Array | null,
): LookedUp | null {
  const writable: Uint8Array[] = []
  const readonly: Uint8Array[] = []
  for (let index = 0; index < layout.lookupCount; index++) {
    const at = layout.lookupTableAt[index]!
    const table = tableOf(bytes.subarray(at, at + 32))
    if (table === null) return null
    const take = (from: number, count: number, into: Uint8Array[]): boolean => {
      for (let entry = from; entry < from + count; entry++) {
        const start = lookupTableHeadBytes + bytes[entry]! * 32
        if (start + 32 > table.length) return false
        into.push(table.subarray(start, start + 32))
      }
      return true
    }
    const isWhole =
      take(layout.lookupWritableAt[index]!, layout.lookupWritableCount[index]!, writable) &&
      take(layout.lookupReadonlyAt[index]!, layout.lookupReadonlyCount[index]!, readonly)
    if (!isWhole) return null
  }
  return { writable, readonly }
}
