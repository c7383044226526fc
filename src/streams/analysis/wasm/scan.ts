// Scans a block's records in the event ring once and lists what the analyses need.
// Thread: analysis worker. The ring's writer may reuse the bytes at any time: everything read here
// is checked against lengths and bounds, and the caller checks afterwards whether it was intact.
//
//   record   0 length and flags u32   4 type u32   8 transaction + 1 u32   16 time u64   24 payload
//            (rings/layout.ts, analysis/feed.ts)
//   scratch  | transaction times | storage accesses | account accesses | headers | ...
//   transaction times   32 bytes: enter u64, exit u64, header u64, end u64; ns, 0 = not seen
//   storage access      16 bytes: payload u32, transaction + 1 u32, key hash u32, address hash u32
//   account access       8 bytes: address u32, hash u32
//   header               8 bytes: position of the record u64
import { align8, finish, sameAddress, sumAddress, sumSlot, TXNS_MAX } from './bytes'

const LENGTH_MASK: u32 = 0x1ffff
const CONTINUATION: u32 = 1 << 29
const MORE: u32 = 1 << 30
const PADDING: u32 = 1 << 31
const RECORD_HEADER: u32 = 8
/** Of our own, after the ring's header and before the payload. */
const RECORD_HEAD: u32 = 16

const TXN_HEADER_START: u32 = 10
const TXN_ACCESS_LIST_ENTRY: u32 = 11
const TXN_AUTH_LIST_ENTRY: u32 = 12
const TXN_PERF_ENTER: u32 = 15
const TXN_PERF_EXIT: u32 = 16
const TXN_END: u32 = 20
const ACCOUNT_ACCESS: u32 = 22
const STORAGE_ACCESS: u32 = 23
/** Bytes of accesses that the feed copies. */
const ACCOUNT_SIZE: u32 = 24
const STORAGE_SIZE: u32 = 60
const ACCESS_LIST_SIZE: u32 = 28
const ACCOUNT_ADDRESS: u32 = 4
/** Offsets in a storage access; also used by contention.ts. */
export const STORAGE_MODIFIED: u32 = 25
const STORAGE_TRANSIENT: u32 = 26
export const STORAGE_KEY: u32 = 27

export const TXN_BYTES: u32 = 32
export const STORAGE_ENTRY: u32 = 16
export const ACCOUNT_ENTRY: u32 = 8
const HEADER_ENTRY: u32 = 8

/** Return codes of `scan` and `analyse`. */
export const DONE: u32 = 0
export const DAMAGED: u32 = 1
export const TOO_LARGE: u32 = 2

export let txns: u32 = 0
/** One more than the highest transaction index seen. */
export let txnEnd: u32 = 0
export let txnHeaders: u32 = 0
export let storages: u32 = 0
export let storageCount: u32 = 0
export let accounts: u32 = 0
export let accountCount: u32 = 0
/** False when storage accesses of different transactions interleave. */
export let isOrdered: bool = true
/** First free byte after the lists, and the end of the scratch. */
export let free: u32 = 0
export let scratchEnd: u32 = 0
let headers: u32 = 0
let headerCount: u32 = 0
let ringData: u32 = 0
let ringMask: u64 = 0
let lastTxn: u32 = 0
let lastAddress: u32 = 0
let lastSum: u64 = 0

export function openScratch(at: u32, bytes: u32): void {
  txns = at
  scratchEnd = at + bytes
}

/** Lists the records from position `from` up to `to`. */
export function scan(data: u32, capacity: u32, from: u64, to: u64): u32 {
  ringData = data
  ringMask = <u64>(capacity - 1)
  if (to < from || to - from > <u64>capacity) return DAMAGED
  if (!layOut(<u32>(to - from))) return TOO_LARGE
  let position = from
  while (position < to) {
    const record = ringData + <u32>(position & ringMask)
    const word = load<u32>(record)
    const length = word & LENGTH_MASK
    if ((word & (PADDING | CONTINUATION)) == 0) {
      if (length < RECORD_HEAD) return DAMAGED
      const outcome = take(record, length - RECORD_HEAD, position)
      if (outcome != DONE) return outcome
    }
    position += <u64>align8(length + RECORD_HEADER)
  }
  return position == to ? DONE : DAMAGED
}

function layOut(bytes: u32): bool {
  txnEnd = 0
  txnHeaders = 0
  storageCount = 0
  accountCount = 0
  headerCount = 0
  isOrdered = true
  lastTxn = 0
  lastAddress = 0
  // A record is at least this long, so that no list can overflow.
  const overhead = RECORD_HEADER + RECORD_HEAD
  storages = txns + TXNS_MAX * TXN_BYTES
  accounts = storages + (bytes / (overhead + STORAGE_SIZE) + 1) * STORAGE_ENTRY
  headers = accounts + (bytes / (overhead + ACCOUNT_SIZE) + 1) * ACCOUNT_ENTRY
  free = headers + (bytes / (overhead + ACCESS_LIST_SIZE) + 1) * HEADER_ENTRY
  return free <= scratchEnd
}

/** `length` is the payload's, or that of its first piece. */
function take(record: u32, length: u32, position: u64): u32 {
  const type = load<u32>(record, 4)
  const txn = load<u32>(record, 8)
  const payload = record + RECORD_HEADER + RECORD_HEAD
  if (type == STORAGE_ACCESS) {
    if (length < STORAGE_SIZE || txn > TXNS_MAX) return DAMAGED
    if (load<u8>(payload, STORAGE_TRANSIENT) == 0) takeStorage(payload, txn)
    return DONE
  }
  if (type == ACCOUNT_ACCESS) {
    if (length < ACCOUNT_SIZE) return DAMAGED
    const address = payload + ACCOUNT_ADDRESS
    const entry = accounts + accountCount++ * ACCOUNT_ENTRY
    store<u32>(entry, address)
    store<u32>(entry, finish(sumAddress(address)), 4)
    return DONE
  }
  if (txn == 0) return DONE
  if (txn > TXNS_MAX) return TOO_LARGE
  touch(txn)
  const times = txns + (txn - 1) * TXN_BYTES
  const time = load<u64>(record, 16)
  if (type == TXN_PERF_ENTER) store<u64>(times, time)
  else if (type == TXN_PERF_EXIT) store<u64>(times, time, 8)
  else if (type == TXN_END) store<u64>(times, time, 24)
  else if (type == TXN_HEADER_START) {
    store<u64>(times, time, 16)
    txnHeaders++
    return takeHeader(length, position)
  } else if (type == TXN_ACCESS_LIST_ENTRY || type == TXN_AUTH_LIST_ENTRY)
    return takeHeader(length, position)
  return DONE
}

function takeStorage(payload: u32, txn: u32): void {
  // Accesses of one contract follow each other, so its last sum can often be reused.
  if (lastAddress == 0 || !sameAddress(payload, lastAddress)) {
    lastAddress = payload
    lastSum = sumAddress(payload)
  }
  const entry = storages + storageCount++ * STORAGE_ENTRY
  store<u32>(entry, payload)
  store<u32>(entry, txn, 4)
  store<u32>(entry, finish(lastSum + sumSlot(payload + STORAGE_KEY)), 8)
  store<u32>(entry, finish(lastSum), 12)
  if (txn == 0) return
  touch(txn)
  if (txn < lastTxn) isOrdered = false
  lastTxn = txn
}

function takeHeader(length: u32, position: u64): u32 {
  if (length < ACCESS_LIST_SIZE) return DAMAGED
  store<u64>(headers + headerCount++ * HEADER_ENTRY, position)
  return DONE
}

/** Clears the times of transactions up to this one; indexes come in any order. */
function touch(txn: u32): void {
  if (txn <= txnEnd) return
  memory.fill(txns + txnEnd * TXN_BYTES, 0, (txn - txnEnd) * TXN_BYTES)
  txnEnd = txn
}

/**
 * Nanoseconds that transactions took: EVM enter to exit where both were seen, else header to end.
 * A span that runs backwards counts 0.
 */
export function sumTransactionTime(): u64 {
  let total: u64 = 0
  for (let txn: u32 = 0; txn < txnEnd; txn++) {
    const times = txns + txn * TXN_BYTES
    const hasPerf = load<u64>(times) != 0 && load<u64>(times, 8) != 0
    const start = hasPerf ? load<u64>(times) : load<u64>(times, 16)
    const end = hasPerf ? load<u64>(times, 8) : load<u64>(times, 24)
    if (start != 0 && end > start) total += end - start
  }
  return total
}

/**
 * Copies the transactions' records to `to`, as [type u32, transaction + 1 u32, bytes u32, 0,
 * payload, pad to 8] in ring order, with continued payloads in one piece. Returns the bytes
 * written, or 0 when they would pass `end`.
 */
export function copyHeaders(to: u32, end: u32, limit: u64): u32 {
  let at = to
  for (let index: u32 = 0; index < headerCount; index++) {
    let position = load<u64>(headers + index * HEADER_ENTRY)
    const first = ringData + <u32>(position & ringMask)
    const entry = at
    if (at + 16 > end) return 0
    // Type and transaction.
    store<u64>(entry, load<u64>(first, 4))
    at += 16
    let skip = RECORD_HEAD
    for (;;) {
      const record = ringData + <u32>(position & ringMask)
      const word = load<u32>(record)
      const length = word & LENGTH_MASK
      if ((word & PADDING) == 0) {
        if (length < skip || at + length > end) return 0
        memory.copy(at, record + RECORD_HEADER + skip, length - skip)
        at += length - skip
        skip = 0
      }
      position += <u64>align8(length + RECORD_HEADER)
      if ((word & (MORE | PADDING)) == 0 || position >= limit) break
    }
    store<u32>(entry, at - entry - 16, 8)
    store<u32>(entry, 0, 12)
    // The padding is cleared: same input, same bytes.
    if (at + 8 > end) return 0
    store<u64>(at, 0)
    at = align8(at)
  }
  return at - to
}
