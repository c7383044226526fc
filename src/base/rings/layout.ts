// Memory layout of a ring: header words, shared positions and records.
// A WebAssembly reader needs only the records.
//
//   header: each word that one side writes has a 128-byte line of its own, so that no two threads
//   share a cache line
//   +--------+---------------------------------------------------------------------------+
//   |    0   | magic u32, data capacity u32, closed u32          (set once, then read)   |
//   |  128   | published: low u32, high u32                      (writer)                |
//   |  256   | reclaimed: low u32, high u32                      (writer)                |
//   |  384   | a reader sleeps: 0 or 1                     (readers set, writer clears)  |
//   |  512   | the writer sleeps: 0 or 1                   (writer sets, readers clear)  |
//   |  640   | lease 0: low u32, high u32, taken u32             (reader of lease 0)     |
//   |  ...   | leases 1, 2, 3                                                            |
//   | 1152   | chunkStarts: 16 x (position f64, messages before it f64)      (writer)    |
//   | 1408   | data: `capacity` bytes, a power of two                                    |
//   +--------+---------------------------------------------------------------------------+
//
//   data: records back to back, each 8-byte aligned and never split by the end of the ring
//   +---------------+-----------+----------------------+--------+
//   | length | flags| tag u32   | payload              | 0 to 7 |
//   +---------------+-----------+----------------------+--------+
//   length is in bits 0 to 16; bit 29: continues the previous record; bit 30: more follows;
//   bit 31: padding up to the end of the ring, not a record.
//
// Positions count bytes since the ring was created and only grow; a record at position p lies at
// offset p & (capacity - 1). The data is divided into 16 equal chunks. The writer reclaims whole
// chunks, and no record is longer than a chunk, so at least one record begins in every chunk;
// chunkStarts has its position and the number of whole messages before it.
import { assert } from '../errors.ts'

/** Location of a ring, possibly inside a shared WebAssembly.Memory. Can be posted to a worker. */
export interface RingDescriptor {
  readonly buffer: SharedArrayBuffer
  readonly byteOffset: number
  readonly byteLength: number
}

/** Typed arrays over a ring. `words` is its header; `data` and `bytes` both view its data. */
export interface RingViews {
  readonly capacity: number
  readonly chunkBytes: number
  readonly words: Int32Array<SharedArrayBuffer>
  readonly chunkStarts: Float64Array<SharedArrayBuffer>
  readonly data: Int32Array<SharedArrayBuffer>
  readonly bytes: Uint8Array<SharedArrayBuffer>
}

export const cacheLineBytes = 128
export const chunks = 16
/** Readers that can apply backpressure to the writer, where loss is not allowed. */
export const leases = 4
const capacityBytesMin = 4096
/** Twice this still is a small integer. */
const capacityBytesMax = 2 ** 29
export const recordHeaderBytes = 8
/** A longer payload continues in the next record; small rings split at the chunk size. */
export const pieceBytesMax = 64 * 1024
export const lengthMask = 0x1ffff
export const continuationFlag = 1 << 29
export const moreFlag = 1 << 30
/** Bit 31 is the sign bit, so a padding record reads as a negative length word. */
export const paddingFlag = 1 << 31

// Indexes of 32-bit words in the header.
const lineWords = cacheLineBytes / 4
const magicAt = 0
const capacityAt = 1
export const closedAt = 2
export const publishedAt = lineWords
export const reclaimedAt = 2 * lineWords
export const readerSleepsAt = 3 * lineWords
export const writerSleepsAt = 4 * lineWords
const leasesAt = 5 * lineWords
const chunkStartsByte = (5 + leases) * cacheLineBytes
export const dataByte = chunkStartsByte + chunks * 16
const magic = 0x534c5231 // "SLR1"

const leaseAt = (slot: number): number => leasesAt + slot * lineWords
/** The third word of a lease's line. */
const leaseTakenAt = (slot: number): number => leaseAt(slot) + 2

/** Total bytes of a ring with `capacityBytes` of data. */
export function ringByteLength(capacityBytes: number): number {
  assert(
    Number.isInteger(Math.log2(capacityBytes)) &&
      capacityBytes >= capacityBytesMin &&
      capacityBytes <= capacityBytesMax,
    `ring capacity ${capacityBytes} is a power of two from ${capacityBytesMin} on`,
  )
  return dataByte + capacityBytes
}

/** Allocates memory for one ring. `RingWriter.create` formats it. */
export function allocateRing(capacityBytes: number): RingDescriptor {
  const byteLength = ringByteLength(capacityBytes)
  return { buffer: new SharedArrayBuffer(byteLength), byteOffset: 0, byteLength }
}

/** Writes the header of an empty ring, which no reader or writer may have opened yet. */
export function formatRing(at: RingDescriptor): void {
  const capacity = at.byteLength - dataByte
  assert(ringByteLength(capacity) === at.byteLength, 'a ring fills its descriptor')
  const words = new Int32Array(at.buffer, at.byteOffset, dataByte / 4)
  words.fill(0)
  words[capacityAt] = capacity
  // Stored last and atomically: a thread that sees the magic word sees the zeros and the capacity.
  Atomics.store(words, magicAt, magic)
}

export function openViews(at: RingDescriptor): RingViews {
  assert(at.byteOffset % 8 === 0, 'a ring begins at a multiple of 8 bytes')
  const words = new Int32Array(at.buffer, at.byteOffset, dataByte / 4)
  // Loaded first: pairs with the store in formatRing.
  assert(Atomics.load(words, magicAt) === magic, 'a ring was formatted before it is opened')
  const capacity = words[capacityAt]!
  assert(dataByte + capacity === at.byteLength, 'a ring fills its descriptor')
  const dataOffset = at.byteOffset + dataByte
  return {
    capacity,
    chunkBytes: capacity / chunks,
    words,
    chunkStarts: new Float64Array(at.buffer, at.byteOffset + chunkStartsByte, chunks * 2),
    data: new Int32Array(at.buffer, dataOffset, capacity / 4),
    bytes: new Uint8Array(at.buffer, dataOffset, capacity),
  }
}

// A position (up to 2^53) is shared as two 32-bit words, because BigInt atomics allocate. Counted
// in units of 8 bytes, `low` is bits 0 to 31 and `high` bits 18 to 49: the 14 bits that both
// contain show a reader whether the two belong together.
export const unitBytes = 8
export const highShift = 18
const overlapMask = 0x3fff
const highBytes = unitBytes * 2 ** highShift

/** The words of a position, as `storePosition` writes them. */
export const lowOf = (position: number): number => (position / unitBytes) | 0
export const highOf = (position: number): number => (position / highBytes) | 0
/** How far the high words of two positions that are at most `bytes` apart can differ. */
export const highSpanOf = (bytes: number): number => Math.ceil(bytes / highBytes) + 1

/** Shares a position. The caller is the only writer of these two words. */
export function storePosition(words: Int32Array, at: number, position: number): void {
  storeHigh(words, at, position)
  // Release: a thread that loads this value sees all bytes below the position.
  Atomics.store(words, at, lowOf(position))
}

/**
 * Shares a position before bytes above it are touched. An exchange and not a store: a store keeps
 * earlier writes before itself, but on arm64 lets later plain writes overtake it; a read-modify-
 * write is a barrier for both sides.
 */
export function storePositionFirst(words: Int32Array, at: number, position: number): void {
  storeHigh(words, at, position)
  Atomics.exchange(words, at, lowOf(position))
}

export function loadPosition(words: Int32Array, at: number): number {
  for (;;) {
    // high, low, high: `high` is stored before `low`, so an unchanged `high` means that `low`
    // belongs to the same stretch (2 MiB, the unit of `high`) or still to the previous one.
    const high = Atomics.load(words, at + 1)
    const low = Atomics.load(words, at)
    if (Atomics.load(words, at + 1) !== high) continue
    const lag = (high - (low >>> highShift)) & overlapMask
    const stretch = (high >>> 0) - lag
    return stretch * highBytes + (low & (2 ** highShift - 1)) * unitBytes
  }
}

function storeHigh(words: Int32Array, at: number, position: number): void {
  const high = highOf(position)
  // Before `low`, so that a reader never pairs a new `low` with an old `high`.
  if (words[at + 1] !== high) Atomics.store(words, at + 1, high)
}

// Backpressure from readers to a ring's writer, for pipelines that must not lose a record.
// A lease is a cache line of the ring's header: its reader's position and whether the
// lease is taken. It outlives its reader: a restarted reader takes the same lease, and no
// record was overwritten meanwhile.

/** Takes the lease at `position`. */
export function takeLease(ring: RingViews, slot: number, position: number): void {
  assert(Number.isInteger(slot) && slot >= 0 && slot < leases, `a lease is 0 to ${leases - 1}`)
  storePosition(ring.words, leaseAt(slot), position)
  // After the position: a writer that sees the lease taken must also see its position.
  Atomics.store(ring.words, leaseTakenAt(slot), 1)
}

/** Advances the lease: the writer may overwrite the bytes below `position`. */
export function moveLease(ring: RingViews, slot: number, position: number): void {
  const { words, chunkBytes } = ring
  // A plain load: the caller's own store was the last one.
  const before = words[leaseAt(slot)]!
  // The store releases: all reads of those bytes are done before the writer can see it.
  storePosition(words, leaseAt(slot), position)
  // The writer reuses whole chunks: until one is free there is nothing to wake it for.
  const chunkMask = -(chunkBytes / unitBytes)
  if (((before ^ lowOf(position)) & chunkMask) !== 0) wake(words, writerSleepsAt)
}

/** Position of the lease, where a restarted reader resumes. Null when it is not taken. */
export function leasePosition(at: RingDescriptor, slot: number): number | null {
  const { words } = openViews(at)
  // Loaded before the position: pairs with the order of the stores in takeLease.
  return Atomics.load(words, leaseTakenAt(slot)) === 0 ? null : loadPosition(words, leaseAt(slot))
}

/** The lowest position of all taken leases; `otherwise` when none is taken. */
export function slowestLease(ring: RingViews, otherwise: number): number {
  let slowest = otherwise
  for (let slot = 0; slot < leases; slot += 1) {
    // Acquires: the reader has finished with the bytes below its position.
    if (Atomics.load(ring.words, leaseTakenAt(slot)) === 0) continue
    slowest = Math.min(slowest, loadPosition(ring.words, leaseAt(slot)))
  }
  return slowest
}

// Sleeps on a word of shared memory until another thread clears it and notifies.
// Thread: any; `sleep` blocks and so belongs to workers, `sleepAsync` is for the main thread.
//
// The sleeper stores 1, checks once more for work, and sleeps while the word is 1. The waker
// publishes the work, then reads the word, stores 0 and notifies. One of the two always sees the
// other: either the second check finds the work, or the waker finds the 1. A sleeper that dies
// leaves a 1, which costs the waker one needless notify and nothing else.

interface AsyncWait {
  readonly async: boolean
  readonly value: 'not-equal' | 'timed-out' | Promise<'ok' | 'timed-out'>
}

// Reason for the cast: Node 20 has waitAsync, the compiler's es2023 library does not name it.
const waitAsync = (
  Atomics as unknown as {
    waitAsync(words: Int32Array, at: number, value: number, timeoutMs: number): AsyncWait
  }
).waitAsync

/** Wakes the threads that sleep on the word; costs one load when none does. */
export function wake(words: Int32Array, at: number): void {
  // Sequentially consistent with the preceding store of the work: if this load moved up, a
  // sleeper that set the word meanwhile would sleep although there is work.
  if (Atomics.load(words, at) === 0) return
  // Cleared before the notify, so that a sleeper about to enter `wait` finds 0 and returns.
  Atomics.store(words, at, 0)
  Atomics.notify(words, at)
}

/** Checks for work before sleeping, and iterations of an empty loop between two checks. */
const spinChecks = 32
const pauseIterations = 64

/** Passes some tens of nanoseconds without touching shared memory. */
export function pause(): void {
  for (let iteration = 0; iteration < pauseIterations; iteration += 1);
}

/**
 * Blocks until woken or timed out. Returns at once when `hasWork` is true. Spins for about two
 * microseconds first: under load the next work comes sooner than a sleep would take, and the pause
 * between two checks keeps the spin from contending for the waker's cache line.
 */
export function sleep(
  words: Int32Array,
  at: number,
  timeoutMs: number,
  hasWork: () => boolean,
): void {
  for (let check = 0; check < spinChecks; check += 1) {
    if (hasWork()) return
    pause()
  }
  // Before the last check for work, never after it: see the header of this file.
  Atomics.store(words, at, 1)
  if (!hasWork()) Atomics.wait(words, at, 1, timeoutMs)
}

/**
 * The same without blocking and without spinning. The promise keeps neither the process nor an
 * event loop alive: on the main thread something else (a listener, a timer) must.
 */
export async function sleepAsync(
  words: Int32Array,
  at: number,
  timeoutMs: number,
  hasWork: () => boolean,
): Promise<void> {
  Atomics.store(words, at, 1)
  if (hasWork()) return
  const wait = waitAsync(words, at, 1, timeoutMs)
  if (wait.async) await wait.value
}

// Shared stop flag for worker loops that never read their messages.
// The worker finds it as `workerData.control`.
//
//   word 0   0: run   1: stop
//
// A loop checks the flag between two batches.

const stopAt = 0

export class ControlWord {
  readonly buffer: SharedArrayBuffer
  readonly #words: Int32Array

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(4)) {
    this.buffer = buffer
    this.#words = new Int32Array(buffer)
  }

  get isStopped(): boolean {
    // Atomic so that the compiler cannot keep the old value across iterations of a loop.
    return Atomics.load(this.#words, stopAt) === 1
  }

  stop(): void {
    Atomics.store(this.#words, stopAt, 1)
  }
}
