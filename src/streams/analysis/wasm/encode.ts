// Encodes ContentionData and TopAccesses as JSON bytes, directly from the keys in memory.
// Thread: analysis worker. Field names are the spec's; the order of fields never changes.
import { contendedCount, longestChain, slotCount, writtenContendedCount } from './contention'
import {
  CONTRACTS_MAX,
  higherOf,
  lowerOf,
  PAIRS_LISTED_MAX,
  rankContracts,
  rankPairs,
  rankSlots,
  SLOTS_MAX,
} from './rank'
import { STORAGE_KEY } from './scan'
import { cursor, put, putByte, putF64, putHex, putU32, putU64, startText } from './text'

/** Upper bound of every text below: 50 elements of at most 300 bytes and the scalars. */
export const TEXT_MAX: u32 = 32768

// The ranked lists are at the end of the text buffer: addresses of slots, contracts and pairs.
let slotList: u32 = 0
let contractList: u32 = 0
let pairList: u32 = 0
let slotsListed: u32 = 0
let contractsListed: u32 = 0
let pairsListed: u32 = 0

/** Ranks the three lists of the block in contention.ts. */
export function rank(to: u32): void {
  pairList = to + TEXT_MAX - PAIRS_LISTED_MAX * 4
  contractList = pairList - CONTRACTS_MAX * 4
  slotList = contractList - SLOTS_MAX * 4
  slotsListed = rankSlots(slotList)
  contractsListed = rankContracts(contractList)
  pairsListed = rankPairs(pairList)
}

/** Writes ContentionData from the ranked lists. Returns its length. */
export function encodeContention(
  to: u32,
  blockNumber: u64,
  wallNs: u64,
  txnNs: u64,
  txnCount: u32,
): u32 {
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
  putSlots()
  putContracts()
  putPairs()
  putByte(0x7d)
  return cursor - to
}

function putSlots(): void {
  put(',"top_contended_slots":[')
  for (let index: u32 = 0; index < slotsListed; index++) {
    const slot = load<u32>(slotList + index * 4)
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

function putContracts(): void {
  put(',"top_contended_contracts":[')
  for (let index: u32 = 0; index < contractsListed; index++) {
    const contract = load<u32>(contractList + index * 4)
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

function putPairs(): void {
  put(',"contract_edges":[')
  for (let index: u32 = 0; index < pairsListed; index++) {
    const pair = load<u32>(pairList + index * 4)
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
