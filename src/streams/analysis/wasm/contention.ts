// Computes the storage-slot contention of one block: slots, contracts, pairs, longest chain.
// Thread: analysis worker. Input are the lists of scan.ts. Writes only to its scratch.
//
//   slot      40 bytes: storage payload u32, contract u32, transactions u32, accesses u32,
//             last transaction u32, that one writes u32, is written u32,
//             longest chain to any toucher u32, to any writer u32, 0 u32
//   contract  24 bytes: address u32, slots u32, contended slots u32, accesses u32,
//             last transaction u32, 0 u32
//   pair      16 bytes: lower contract + 1 u32, higher contract + 1 u32 (0 = empty), count u32, 0
//   tables    u64: hash << 32 | index + 1, 0 = empty; linear probing, at most half full
import { powerOfTwo, sameAddress, sameSlot } from './bytes'
import {
  DONE,
  free,
  isOrdered,
  scratchEnd,
  STORAGE_ENTRY,
  STORAGE_KEY,
  STORAGE_MODIFIED,
  storageCount,
  storages,
  TOO_LARGE,
  txnEnd,
} from './scan'

export const SLOT: u32 = 40
export const CONTRACT: u32 = 24
export const PAIR: u32 = 16
/** Pairs counted per block: one transaction that touches n contracts makes n * (n - 1) / 2. */
const PAIRS_MAX: u64 = 1 << 25

export let slots: u32 = 0
export let slotCount: u32 = 0
export let contracts: u32 = 0
export let contractCount: u32 = 0
export let pairs: u32 = 0
export let pairMask: u32 = 0
export let pairCount: u32 = 0
export let contendedCount: u32 = 0
export let writtenContendedCount: u32 = 0
export let longestChain: u32 = 0
/** First free byte after the tables. */
export let spare: u32 = 0

let order: u32 = 0
let slotTable: u32 = 0
let tableMask: u32 = 0
let contractTable: u32 = 0
let touchedSlots: u32 = 0
let touchedSlotCount: u32 = 0
let touchedContracts: u32 = 0
let touchedContractCount: u32 = 0
let pairsLeft: u64 = 0

/** Analyses the listed accesses; `transactions` is the block's transaction count. */
export function contend(transactions: u32): u32 {
  if (!layOut()) return TOO_LARGE
  longestChain = transactions == 0 ? 0 : 1
  let current: u32 = 0
  for (let index: u32 = 0; index < storageCount; index++) {
    const place = isOrdered ? index : load<u32>(order + (index << 2))
    const access = storages + place * STORAGE_ENTRY
    const txn = load<u32>(access, 4)
    if (txn == 0) continue
    if (txn != current) {
      if (!closeTransaction()) return TOO_LARGE
      current = txn
    }
    count(access, txn)
  }
  if (!closeTransaction()) return TOO_LARGE
  for (let slot: u32 = 0; slot < slotCount; slot++) {
    const at = slots + slot * SLOT
    if (load<u32>(at, 8) < 2) continue
    contendedCount++
    writtenContendedCount += load<u32>(at, 24)
    const contract = contracts + load<u32>(at, 4) * CONTRACT
    store<u32>(contract, load<u32>(contract, 8) + 1, 8)
  }
  return DONE
}

function layOut(): bool {
  slotCount = 0
  contractCount = 0
  pairCount = 0
  contendedCount = 0
  writtenContendedCount = 0
  touchedSlotCount = 0
  touchedContractCount = 0
  pairsLeft = PAIRS_MAX
  const size = powerOfTwo(storageCount * 2)
  tableMask = size - 1
  order = free
  touchedSlots = order + storageCount * 4
  touchedContracts = touchedSlots + storageCount * 4
  slotTable = (touchedContracts + storageCount * 4 + 7) & ~7
  contractTable = slotTable + size * 8
  slots = contractTable + size * 8
  contracts = slots + storageCount * SLOT
  pairs = (contracts + storageCount * CONTRACT + 7) & ~7
  pairMask = size - 1
  spare = pairs + size * PAIR
  // After the tables the sort needs a word per transaction, before the pairs may grow there.
  if (spare + txnEnd * 4 + 8 > scratchEnd) return false
  memory.fill(slotTable, 0, size * 16)
  memory.fill(pairs, 0, size * PAIR)
  if (!isOrdered) sortByTransaction()
  return true
}

/** Counting sort of the accesses by transaction; stable within a transaction. */
function sortByTransaction(): void {
  const starts = spare
  memory.fill(starts, 0, (txnEnd + 2) * 4)
  for (let index: u32 = 0; index < storageCount; index++) {
    const slot = starts + ((load<u32>(storages + index * STORAGE_ENTRY, 4) + 1) << 2)
    store<u32>(slot, load<u32>(slot) + 1)
  }
  for (let txn: u32 = 1; txn <= txnEnd; txn++) {
    const at = starts + (txn << 2)
    store<u32>(at, load<u32>(at) + load<u32>(at - 4))
  }
  for (let index: u32 = 0; index < storageCount; index++) {
    const start = starts + (load<u32>(storages + index * STORAGE_ENTRY, 4) << 2)
    const place = load<u32>(start)
    store<u32>(start, place + 1)
    store<u32>(order + (place << 2), index)
  }
}

function count(access: u32, txn: u32): void {
  const payload = load<u32>(access)
  const contract = findContract(payload, load<u32>(access, 12))
  const contractAt = contracts + contract * CONTRACT
  store<u32>(contractAt, load<u32>(contractAt, 12) + 1, 12)
  if (load<u32>(contractAt, 16) != txn) {
    store<u32>(contractAt, txn, 16)
    store<u32>(touchedContracts + (touchedContractCount++ << 2), contract)
  }
  const slot = findSlot(payload, contract, load<u32>(access, 8))
  const at = slots + slot * SLOT
  const writes: u32 = load<u8>(payload, STORAGE_MODIFIED) != 0 ? 1 : 0
  store<u32>(at, load<u32>(at, 12) + 1, 12)
  if (load<u32>(at, 16) == txn) {
    store<u32>(at, load<u32>(at, 20) | writes, 20)
    return
  }
  store<u32>(at, load<u32>(at, 8) + 1, 8)
  store<u32>(at, txn, 16)
  store<u32>(at, writes, 20)
  store<u32>(touchedSlots + (touchedSlotCount++ << 2), slot)
}

// @ts-ignore: decorator
@inline
function findContract(address: u32, hash: u32): u32 {
  let place = hash & tableMask
  for (;;) {
    const entry = load<u64>(contractTable + (place << 3))
    if (entry == 0) break
    if (<u32>(entry >> 32) == hash) {
      const found = <u32>entry - 1
      if (sameAddress(load<u32>(contracts + found * CONTRACT), address)) return found
    }
    place = (place + 1) & tableMask
  }
  const made = contractCount++
  store<u64>(contractTable + (place << 3), (<u64>hash << 32) | <u64>(made + 1))
  const at = contracts + made * CONTRACT
  store<u64>(at, <u64>address)
  store<u64>(at, 0, 8)
  store<u64>(at, 0, 16)
  return made
}

// @ts-ignore: decorator
@inline
function findSlot(payload: u32, contract: u32, hash: u32): u32 {
  let place = hash & tableMask
  for (;;) {
    const entry = load<u64>(slotTable + (place << 3))
    if (entry == 0) break
    if (<u32>(entry >> 32) == hash) {
      const found = <u32>entry - 1
      const at = slots + found * SLOT
      if (
        load<u32>(at, 4) == contract &&
        sameSlot(load<u32>(at) + STORAGE_KEY, payload + STORAGE_KEY)
      )
        return found
    }
    place = (place + 1) & tableMask
  }
  const made = slotCount++
  store<u64>(slotTable + (place << 3), (<u64>hash << 32) | <u64>(made + 1))
  const at = slots + made * SLOT
  store<u32>(at, payload)
  store<u32>(at, contract, 4)
  store<u64>(at, 0, 8)
  store<u64>(at, 0, 16)
  store<u64>(at, 0, 24)
  store<u64>(at, 0, 32)
  const contractAt = contracts + contract * CONTRACT
  store<u32>(contractAt, load<u32>(contractAt, 4) + 1, 4)
  return made
}

/** Counts the pairs of the transaction's contracts and extends the chains through its slots. */
function closeTransaction(): bool {
  const touched = touchedContractCount
  const made = (<u64>touched * <u64>(touched - (touched > 0 ? 1 : 0))) / 2
  if (made > pairsLeft) return false
  pairsLeft -= made
  for (let first: u32 = 0; first < touched; first++) {
    const a = load<u32>(touchedContracts + (first << 2)) + 1
    for (let second = first + 1; second < touched; second++) {
      const b = load<u32>(touchedContracts + (second << 2)) + 1
      countPair(a < b ? a : b, a < b ? b : a)
      if (pairCount * 2 > pairMask && !growPairs()) return false
    }
  }
  touchedContractCount = 0
  lengthenChains()
  return true
}

/**
 * The chain that ends in this transaction extends the longest one that ends in an earlier
 * transaction with which it shares a slot that one of the two writes.
 */
function lengthenChains(): void {
  let chain: u32 = 0
  for (let index: u32 = 0; index < touchedSlotCount; index++) {
    const at = slots + load<u32>(touchedSlots + (index << 2)) * SLOT
    const before = load<u32>(at, 20) != 0 ? load<u32>(at, 28) : load<u32>(at, 32)
    if (before > chain) chain = before
  }
  chain++
  for (let index: u32 = 0; index < touchedSlotCount; index++) {
    const at = slots + load<u32>(touchedSlots + (index << 2)) * SLOT
    if (load<u32>(at, 28) < chain) store<u32>(at, chain, 28)
    if (load<u32>(at, 20) == 0) continue
    store<u32>(at, 1, 24)
    if (load<u32>(at, 32) < chain) store<u32>(at, chain, 32)
  }
  if (touchedSlotCount > 0 && chain > longestChain) longestChain = chain
  touchedSlotCount = 0
}

// @ts-ignore: decorator
@inline
function pairPlace(a: u32, b: u32): u32 {
  const mixed = ((<u64>a << 32) | <u64>b) * 0x9e3779b97f4a7c15
  return <u32>(mixed >> 32) & pairMask
}

// @ts-ignore: decorator
@inline
function countPair(a: u32, b: u32): void {
  let place = pairPlace(a, b)
  const key = (<u64>b << 32) | <u64>a
  for (;;) {
    const at = pairs + place * PAIR
    const known = load<u64>(at)
    if (known == key) {
      store<u32>(at, load<u32>(at, 8) + 1, 8)
      return
    }
    if (known == 0) {
      store<u64>(at, key)
      store<u32>(at, 1, 8)
      pairCount++
      return
    }
    place = (place + 1) & pairMask
  }
}

/** Doubles the table of pairs, after the old one; false when the scratch is used up. */
function growPairs(): bool {
  const old = pairs
  const oldSize = pairMask + 1
  const size = oldSize * 2
  if (<u64>spare + <u64>size * <u64>PAIR > <u64>scratchEnd) return false
  pairs = spare
  pairMask = size - 1
  spare = pairs + size * PAIR
  memory.fill(pairs, 0, size * PAIR)
  for (let index: u32 = 0; index < oldSize; index++) {
    const from = old + index * PAIR
    const key = load<u64>(from)
    if (key == 0) continue
    let place = pairPlace(<u32>key, <u32>(key >> 32))
    while (load<u64>(pairs + place * PAIR) != 0) place = (place + 1) & pairMask
    store<u64>(pairs + place * PAIR, key)
    store<u64>(pairs + place * PAIR, load<u64>(from, 8), 8)
  }
  return true
}
