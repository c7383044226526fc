// Exports of the analysis module, as analysis/memory.ts declares them. Thread: analysis worker.
// All state is in the shared memory; module variables keep nothing from one block to the next.
import { finish, readSecret, sumAddress, sumSlot } from './bytes'
import { contend, spare } from './contention'
import { encodeContention, encodeTop, rank, TEXT_MAX } from './encode'
import {
  ACCOUNT_ENTRY,
  accountCount,
  accounts,
  copyHeaders,
  DAMAGED,
  DONE,
  openScratch,
  scan,
  scratchEnd,
  STORAGE_ENTRY,
  STORAGE_KEY,
  storageCount,
  storages,
  sumTransactionTime,
  TOO_LARGE,
  txnHeaders,
} from './scan'
import {
  countAddress,
  countSlot,
  formatTracker,
  give,
  take,
  trackerBytes,
  writeTop,
} from './space-saving'

export { encodeTop, formatTracker, readSecret, trackerBytes, writeTop }

/** Where `analyse` put the text of ContentionData and the transactions' records. */
export let textAt: u32 = 0
export let textBytes: u32 = 0
export let headersAt: u32 = 0
export let headersBytes: u32 = 0
let txnCount: u32 = 0

let scratchAt: u32 = 0

/** Sets the scratch memory of this instance's next block, which needs exclusive use of it. */
export function useScratch(at: u32, bytes: u32): void {
  scratchAt = at
  openScratch(at, bytes)
}

/**
 * Analyses the records between two ring positions. Returns 0 done, 1 damaged records, 2 more
 * than fits the scratch. Its lists stay valid for `feed`.
 */
export function analyse(
  ringData: u32,
  ringCapacity: u32,
  from: f64,
  to: f64,
  blockNumber: f64,
  wallNs: f64,
): u32 {
  const scanned = scan(ringData, ringCapacity, <u64>from, <u64>to)
  if (scanned != DONE) return scanned
  txnCount = txnHeaders
  const contended = contend(txnHeaders)
  if (contended != DONE) return contended
  textAt = (spare + 7) & ~7
  headersAt = textAt + TEXT_MAX
  if (headersAt > scratchEnd) return TOO_LARGE
  rank(textAt)
  textBytes = encodeContention(
    textAt,
    <u64>blockNumber,
    <u64>wallNs,
    sumTransactionTime(),
    txnHeaders,
  )
  headersBytes = copyHeaders(headersAt, scratchEnd, <u64>to)
  return headersBytes == 0 && txnHeaders > 0 ? DAMAGED : DONE
}

/** Writes the text of the analysed block again; returns its length. For benches. */
export function encodeAgain(blockNumber: f64, wallNs: f64): u32 {
  return encodeContention(textAt, <u64>blockNumber, <u64>wallNs, sumTransactionTime(), txnCount)
}

/** Feeds the accesses that `analyse` listed, in ring order, to the two trackers. */
export function feed(accountTracker: u32, storageTracker: u32): void {
  take(accountTracker)
  for (let index: u32 = 0; index < accountCount; index++) {
    const entry = accounts + index * ACCOUNT_ENTRY
    countAddress(load<u32>(entry), load<u32>(entry, 4))
  }
  give()
  take(storageTracker)
  for (let index: u32 = 0; index < storageCount; index++) {
    const entry = storages + index * STORAGE_ENTRY
    const payload = load<u32>(entry)
    countSlot(payload, payload + STORAGE_KEY, load<u32>(entry, 8))
  }
  give()
}

/** Feeds `count` contiguous keys to one tracker. For benches and tests. */
export function feedKeys(tracker: u32, keys: u32, count: u32, keyBytes: u32): void {
  take(tracker)
  for (let index: u32 = 0; index < count; index++) {
    const key = keys + index * keyBytes
    if (keyBytes == 20) countAddress(key, finish(sumAddress(key)))
    else countSlot(key, key + 20, finish(sumAddress(key) + sumSlot(key + 20)))
  }
  give()
}
