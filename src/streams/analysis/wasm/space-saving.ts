// Counts the most accessed keys in fixed memory (true Space-Saving, k counters).
// Thread: analysis worker, one at a time: the one that has the turn (analysis/block-jobs.ts).
// Error bound: count - error <= true count <= count, and error <= fed keys / k.
// A full tracker reassigns the counter of the smallest count to the new key; among several it
// is the one that reached that count last. So the result depends on the order of the keys alone,
// never on the hash.
//
//   tracker  0 k u32   4 table size u32   8 key bytes u32   12 counters used u32
//           16 bucket of the smallest count u32, 0 none   20 free buckets u32   24 0 u64
//           32 table     (size x u64: hash << 32 | counter + 1, 0 = empty; linear probing)
//              counters  (k x 80 bytes: hash u32, bucket u32, next u32, previous u32, error u64, key)
//              buckets   (k + 2 x [count u64, first counter u32, next u32, previous u32, 0])
//              free list (k + 2 x u32)
//   Counters of one count are linked to one bucket; buckets are a list ascending by count. Links
//   are counter + 1 and bucket numbers from 1; 0 ends a list.
import {
  align8,
  compareBytes,
  copyAddress,
  copySlot,
  powerOfTwo,
  sameAddress,
  sameSlot,
} from './bytes'

const HEADER: u32 = 32
/** The same for both lengths of keys: a constant stride is cheaper than the bytes it saves. */
const COUNTER: u32 = 80
const COUNTER_KEY: u32 = 24
const BUCKET: u32 = 24

// The current tracker: read from its header by `take`, written back by `give`.
let base: u32 = 0
let capacity: u32 = 0
let mask: u32 = 0
let used: u32 = 0
let lowest: u32 = 0
let freeCount: u32 = 0
let keyBytes: u32 = 0
let table: u32 = 0
let counters: u32 = 0
let buckets: u32 = 0
let freeList: u32 = 0

/** Bytes of a tracker of `k` counters. */
export function trackerBytes(k: u32): u32 {
  return (
    HEADER +
    powerOfTwo(k * 2) * 8 +
    k * COUNTER +
    (k + 2) * BUCKET +
    align8((k + 2) * 4)
  )
}

/** Initializes an empty tracker. */
export function formatTracker(at: u32, k: u32, bytesOfKey: u32): void {
  memory.fill(at, 0, trackerBytes(k))
  store<u32>(at, k)
  store<u32>(at, powerOfTwo(k * 2), 4)
  store<u32>(at, bytesOfKey, 8)
  take(at)
  freeCount = 0
  for (let bucket = k + 1; bucket >= 1; bucket--) free(bucket)
  give()
}

export function take(at: u32): void {
  base = at
  capacity = load<u32>(at)
  mask = load<u32>(at, 4) - 1
  keyBytes = load<u32>(at, 8)
  used = load<u32>(at, 12)
  lowest = load<u32>(at, 16)
  freeCount = load<u32>(at, 20)
  table = at + HEADER
  counters = table + (mask + 1) * 8
  buckets = counters + capacity * COUNTER
  freeList = buckets + (capacity + 2) * BUCKET
}

export function give(): void {
  store<u32>(base, used, 12)
  store<u32>(base, lowest, 16)
  store<u32>(base, freeCount, 20)
}

/** Counts one address. */
export function countAddress(address: u32, hash: u32): void {
  let place = hash & mask
  for (;;) {
    const entry = load<u64>(table + (place << 3))
    if (entry == 0) break
    if (<u32>(entry >> 32) == hash) {
      const counter = <u32>entry - 1
      if (sameAddress(counterAt(counter) + COUNTER_KEY, address)) return increment(counter)
    }
    place = (place + 1) & mask
  }
  const counter = claim(hash)
  copyAddress(counterAt(counter) + COUNTER_KEY, address)
}

/** Counts one storage slot: an address and, at another offset, the slot's 32 bytes. */
export function countSlot(address: u32, slot: u32, hash: u32): void {
  let place = hash & mask
  for (;;) {
    const entry = load<u64>(table + (place << 3))
    if (entry == 0) break
    if (<u32>(entry >> 32) == hash) {
      const counter = <u32>entry - 1
      const key = counterAt(counter) + COUNTER_KEY
      if (sameSlot(key + 20, slot) && sameAddress(key, address)) return increment(counter)
    }
    place = (place + 1) & mask
  }
  const counter = claim(hash)
  const key = counterAt(counter) + COUNTER_KEY
  copyAddress(key, address)
  copySlot(key + 20, slot)
}

/**
 * Writes the `limit` largest counters as [count u64, error u64, key, pad to 8], by count
 * descending, then key ascending. Returns how many.
 */
export function writeTop(tracker: u32, limit: u32, to: u32): u32 {
  take(tracker)
  const bytes = 16 + align8(keyBytes)
  let found: u32 = 0
  for (let counter: u32 = 0; counter < used; counter++) {
    const at = counterAt(counter)
    const count = countOf(counter)
    if (found == limit && !isAbove(count, at, to + (limit - 1) * bytes)) continue
    let place = found < limit ? found++ : limit - 1
    for (; place > 0 && isAbove(count, at, to + (place - 1) * bytes); place--)
      memory.copy(to + place * bytes, to + (place - 1) * bytes, bytes)
    const entry = to + place * bytes
    store<u64>(entry, count)
    store<u64>(entry, load<u64>(at, 16), 8)
    memory.copy(entry + 16, at + COUNTER_KEY, keyBytes)
  }
  return found
}

function isAbove(count: u64, counter: u32, entry: u32): bool {
  const other = load<u64>(entry)
  if (count != other) return count > other
  return compareBytes(counter + COUNTER_KEY, entry + 16, keyBytes) < 0
}

// @ts-ignore: decorator
@inline
function counterAt(counter: u32): u32 {
  return counters + counter * COUNTER
}

// @ts-ignore: decorator
@inline
function bucketAt(bucket: u32): u32 {
  return buckets + bucket * BUCKET
}

function countOf(counter: u32): u64 {
  return load<u64>(bucketAt(load<u32>(counterAt(counter), 4)))
}

/** A counter for a new key, already counted once; the caller writes the key. */
function claim(hash: u32): u32 {
  let counter: u32
  if (used < capacity) {
    counter = used++
    store<u64>(counterAt(counter), 0, 16)
    enter(counter, hash)
    if (lowest == 0 || load<u64>(bucketAt(lowest)) != 1) lowest = insertBucket(1, 0, lowest)
    push(lowest, counter)
    return counter
  }
  counter = load<u32>(bucketAt(lowest), 8) - 1
  leave(counter)
  store<u64>(counterAt(counter), load<u64>(bucketAt(lowest)), 16)
  enter(counter, hash)
  increment(counter)
  return counter
}

function increment(counter: u32): void {
  const at = counterAt(counter)
  const bucket = load<u32>(at, 4)
  const here = bucketAt(bucket)
  const count = load<u64>(here) + 1
  const next = load<u32>(here, 12)
  if (next == 0 || load<u64>(bucketAt(next)) != count) {
    // Alone in its bucket, the bucket itself moves up; else a new one is inserted after it.
    if (load<u32>(here, 8) == counter + 1 && load<u32>(at, 8) == 0) {
      store<u64>(here, count)
      return
    }
    const made = insertBucket(count, bucket, next)
    unlink(here, at)
    push(made, counter)
    return
  }
  unlink(here, at)
  push(next, counter)
  if (load<u32>(here, 8) == 0) removeBucket(bucket)
}

function unlink(bucket: u32, counter: u32): void {
  const next = load<u32>(counter, 8)
  const previous = load<u32>(counter, 12)
  if (previous != 0) store<u32>(counterAt(previous - 1), next, 8)
  else store<u32>(bucket, next, 8)
  if (next != 0) store<u32>(counterAt(next - 1), previous, 12)
}

function push(bucket: u32, counter: u32): void {
  const at = counterAt(counter)
  const here = bucketAt(bucket)
  const first = load<u32>(here, 8)
  store<u32>(at, bucket, 4)
  store<u32>(at, first, 8)
  store<u32>(at, 0, 12)
  if (first != 0) store<u32>(counterAt(first - 1), counter + 1, 12)
  store<u32>(here, counter + 1, 8)
}

function insertBucket(count: u64, previous: u32, next: u32): u32 {
  freeCount--
  const bucket = load<u32>(freeList + (freeCount << 2))
  const at = bucketAt(bucket)
  store<u64>(at, count)
  store<u32>(at, 0, 8)
  store<u32>(at, next, 12)
  store<u32>(at, previous, 16)
  if (previous != 0) store<u32>(bucketAt(previous), bucket, 12)
  if (next != 0) store<u32>(bucketAt(next), bucket, 16)
  return bucket
}

function removeBucket(bucket: u32): void {
  const next = load<u32>(bucketAt(bucket), 12)
  const previous = load<u32>(bucketAt(bucket), 16)
  if (previous != 0) store<u32>(bucketAt(previous), next, 12)
  else lowest = next
  if (next != 0) store<u32>(bucketAt(next), previous, 16)
  free(bucket)
}

// @ts-ignore: decorator
@inline
function free(bucket: u32): void {
  store<u32>(freeList + (freeCount << 2), bucket)
  freeCount++
}

function enter(counter: u32, hash: u32): void {
  store<u32>(counterAt(counter), hash)
  let place = hash & mask
  while (load<u64>(table + (place << 3)) != 0) place = (place + 1) & mask
  store<u64>(table + (place << 3), (<u64>hash << 32) | <u64>(counter + 1))
}

/** Removes a counter from the table; later entries of its run move back (no tombstones). */
function leave(counter: u32): void {
  let hole = load<u32>(counterAt(counter)) & mask
  while (<u32>load<u64>(table + (hole << 3)) != counter + 1) hole = (hole + 1) & mask
  let place = hole
  for (;;) {
    place = (place + 1) & mask
    const entry = load<u64>(table + (place << 3))
    if (entry == 0) break
    const home = <u32>(entry >> 32) & mask
    // The entry may fill the hole only if its home is not after the hole.
    if (((place - home) & mask) < ((place - hole) & mask)) continue
    store<u64>(table + (hole << 3), entry)
    hole = place
  }
  store<u64>(table + (hole << 3), 0)
}
