// ContentionData and TopAccesses as JSON bytes, straight from the keys in memory.
// Thread: analysis worker. Field names are the spec's; the order of fields never changes.
import {
  contendedCount,
  longestChain,
  slotCount,
  writtenContendedCount,
} from './contention'
import { higherOf, lowerOf, rankContracts, rankPairs, rankSlots } from './rank'
import { STORAGE_KEY } from './scan'
import { contracts, CONTRACT } from './contention'
import { cursor, put, putByte, putF64, putHex, putU32, putU64, startText } from './text'

/** More than any text below can take: 50 elements of at most 300 bytes and the scalars. */
export const TEXT_MAX: u32 = 32768
const LISTS_BYTES: u32 = 256

export function encodeContention(
  to: u32,
  blockNumber: u64,
  wallNs: u64,
  txnNs: u64,
  txnCount: u32,
): u32 {
  const lists = to + TEXT_MAX - LISTS_BYTES
  startText(to)
  put('{"block_number":')
  putU64(blockNumber)
  put(',"block_wall_time_ns":')
  putU64(wallNs)
  put(',"total_tx_time_ns":')
  putU64(txnNs)
  put(',"parallel_efficiency_pct":')
  putF64(txnNs > wallNs ? (<f64>(txnNs - wallNs) / <f64>txnNs) * 100 : 0)
  put(',"total_unique_slots":')
  putU32(slotCount)
  put(',"contended_slot_count":')
  putU32(contendedCount)
  put(',"contention_ratio":')
  putF64(slotCount == 0 ? 0 : <f64>contendedCount / <f64>slotCount)
  put(',"total_txn_count":')
  putU32(txnCount)
  put(',"written_contended_slot_count":')
  putU32(writtenContendedCount)
  put(',"critical_path_txn_count":')
  putU32(longestChain)
  putSlots(lists)
  putContracts(lists)
  putPairs(lists)
  putByte(0x7d)
  return cursor - to
}

function putSlots(list: u32): void {
  const count = rankSlots(list)
  put(',"top_contended_slots":[')
  for (let index: u32 = 0; index < count; index++) {
    const slot = load<u32>(list + index * 4)
    const payload = load<u32>(slot)
    if (index > 0) putByte(0x2c)
    put('{"address":')
    putHex(payload, 20)
    put(',"slot":')
    putHex(payload + STORAGE_KEY, 32)
    put(',"txn_count":')
    putU32(load<u32>(slot, 8))
    put(',"access_count":')
    putU32(load<u32>(slot, 12))
    putByte(0x7d)
  }
  putByte(0x5d)
}

function putContracts(list: u32): void {
  const count = rankContracts(list)
  put(',"top_contended_contracts":[')
  for (let index: u32 = 0; index < count; index++) {
    const contract = load<u32>(list + index * 4)
    if (index > 0) putByte(0x2c)
    put('{"address":')
    putHex(load<u32>(contract), 20)
    put(',"total_slots":')
    putU32(load<u32>(contract, 4))
    put(',"contended_slots":')
    putU32(load<u32>(contract, 8))
    put(',"total_accesses":')
    putU32(load<u32>(contract, 12))
    put(',"contention_score":')
    putF64(<f64>load<u32>(contract, 8) / <f64>load<u32>(contract, 4))
    putByte(0x7d)
  }
  putByte(0x5d)
}

function putPairs(list: u32): void {
  const count = rankPairs(list)
  put(',"contract_edges":[')
  for (let index: u32 = 0; index < count; index++) {
    const pair = load<u32>(list + index * 4)
    if (index > 0) putByte(0x2c)
    put('{"contract_a":')
    putHex(lowerOf(pair), 20)
    put(',"contract_b":')
    putHex(higherOf(pair), 20)
    put(',"shared_txn_count":')
    putU32(load<u32>(pair, 8))
    putByte(0x7d)
  }
  putByte(0x5d)
}

/** Entries as space-saving.ts writes them: 40 bytes for accounts, 72 for storage slots. */
export function encodeTop(
  to: u32,
  accounts: u32,
  accountCount: u32,
  storage: u32,
  storageCount: u32,
): u32 {
  startText(to)
  put('{"account":[')
  for (let index: u32 = 0; index < accountCount; index++) {
    const entry = accounts + index * 40
    if (index > 0) putByte(0x2c)
    put('{"key":')
    putHex(entry + 16, 20)
    putCount(entry)
  }
  put('],"storage":[')
  for (let index: u32 = 0; index < storageCount; index++) {
    const entry = storage + index * 72
    if (index > 0) putByte(0x2c)
    put('{"key":[')
    putHex(entry + 16, 20)
    putByte(0x2c)
    putHex(entry + 36, 32)
    putByte(0x5d)
    putCount(entry)
  }
  put(']}')
  return cursor - to
}

function putCount(entry: u32): void {
  put(',"count":')
  putU64(load<u64>(entry))
  put(',"error":')
  putU64(load<u64>(entry, 8))
  putByte(0x7d)
}
