// Writes records to a ring. A ring has one writer, which never waits for readers by itself.
// Readers usually run on other threads. Memory layout: layout.ts.
//
//   writer.write(tag, payload)   or   offset = writer.reserve(tag, length); fill; writer.commit()
//   writer.publish()                  once per batch: readers see it all, sleepers are woken
//
// Backpressure: where loss is not allowed, readers take a lease and the writer calls `fits` before
// it writes.
import { assert } from '../errors.ts'
import type { RingCheckpoint } from './checkpoints.ts'
import { countUpTo, isChunkStarted, isIntact, newest, oldest } from './checkpoints.ts'
import type { RingDescriptor, RingViews } from './layout.ts'
import {
  closedAt,
  continuationFlag,
  dataByte,
  formatRing,
  highOf,
  highShift,
  highSpanOf,
  lengthMask,
  loadPosition,
  lowOf,
  moreFlag,
  moveLease,
  openViews,
  paddingFlag,
  pause,
  pieceBytesMax,
  publishedAt,
  readerSleepsAt,
  reclaimedAt,
  recordHeaderBytes,
  sleep,
  sleepAsync,
  slowestLease,
  storePosition,
  storePositionFirst,
  takeLease,
  unitBytes,
  wake,
  writerSleepsAt,
} from './layout.ts'

export class RingWriter {
  readonly #ring: RingViews
  readonly #words: Int32Array<SharedArrayBuffer>
  readonly #capacity: number
  /** Memory for payloads that are built without a copy; offsets from `reserve` point into these. */
  readonly bytes: Uint8Array<SharedArrayBuffer>
  readonly data: Int32Array<SharedArrayBuffer>
  /** Longest payload of one record, and of one message over several records. */
  readonly pieceBytesMax: number
  readonly messageBytesMax: number
  /** Position of byte 0 in this lap. All `...At` are counted from it and so stay small integers. */
  #lap: number
  /** The low word of `#lap`, and the high bits of the last published position: see layout.ts. */
  #lapUnits: number
  #stretch = -1
  #at: number
  #nextChunkAt: number
  /** The writer may write up to here without reclaiming another chunk. */
  #writableAt: number
  /** No reader with a lease needs the bytes that a record ending here overwrites. */
  #leaseLimitAt = 0
  #count: number
  #reservedSize = 0
  #isMidMessage = false

  private constructor(ring: RingViews, start: RingCheckpoint & { readonly nextChunk: number }) {
    this.#ring = ring
    this.#words = ring.words
    this.#capacity = ring.capacity
    this.bytes = ring.bytes
    this.data = ring.data
    this.pieceBytesMax = Math.min(pieceBytesMax, ring.chunkBytes - recordHeaderBytes)
    this.messageBytesMax = ring.capacity / 2
    this.#lap = Math.floor(start.position / ring.capacity) * ring.capacity
    this.#lapUnits = (this.#lap / unitBytes) | 0
    this.#at = start.position - this.#lap
    this.#count = start.count
    this.#nextChunkAt = start.nextChunk - this.#lap
    this.#writableAt = loadPosition(ring.words, reclaimedAt) + ring.capacity - this.#lap
  }

  /** Formats the memory and becomes its only writer. */
  static create(at: RingDescriptor): RingWriter {
    formatRing(at)
    return new RingWriter(openViews(at), { position: 0, count: 0, nextChunk: 0 })
  }

  /** Takes over from a writer that is gone; what it had not published is discarded. */
  static resume(at: RingDescriptor): RingWriter {
    const ring = openViews(at)
    const start = newest(ring, new Int32Array(1))
    const chunkAt = Math.floor(start.position / ring.chunkBytes) * ring.chunkBytes
    const nextChunk = isChunkStarted(ring, start.position) ? chunkAt + ring.chunkBytes : chunkAt
    return new RingWriter(ring, { ...start, nextChunk })
  }

  /** Position of the next record. */
  get position(): number {
    return this.#lap + this.#at
  }

  /** Whole messages written so far. */
  get count(): number {
    return this.#count
  }

  /**
   * Writes one message, continued over several records when it is long, and returns its position.
   * Readers see it after `publish`.
   */
  write(tag: number, payload: Uint8Array): number {
    const length = payload.length
    if (length > this.pieceBytesMax) return this.#writePieces(tag, payload)
    const offset = this.reserve(tag, length)
    this.bytes.set(payload, offset)
    return this.commit()
  }

  /**
   * Opens a record and returns the offset in `bytes` where its payload goes, a multiple of 8.
   * `commit` closes it. At most `pieceBytesMax` bytes.
   */
  reserve(tag: number, length: number): number {
    assert(length <= this.pieceBytesMax, 'a record fits a chunk')
    const size = (length + recordHeaderBytes + 7) & ~7
    if (this.#at + size > this.#capacity) this.#wrap()
    if (this.#at + size > this.#writableAt) this.#reclaim(this.#at + size)
    if (this.#at >= this.#nextChunkAt) this.#startChunk()
    const at = this.#at
    this.data[at >> 2] = length
    this.data[(at >> 2) + 1] = tag
    this.#reservedSize = size
    return at + recordHeaderBytes
  }

  /** Closes the reserved record, shortened to `length` if given; returns its position. */
  commit(length?: number): number {
    const at = this.#at
    if (length !== undefined) {
      assert(length <= this.data[at >> 2]!, 'a commit only shortens')
      this.data[at >> 2] = length
      this.#reservedSize = (length + recordHeaderBytes + 7) & ~7
    }
    this.#at = at + this.#reservedSize
    this.#count += 1
    return this.#lap + at
  }

  /**
   * Makes everything written so far visible to readers and wakes those that sleep. Call it once
   * per batch; a batch longer than one chunk (1/16 of the ring) becomes visible in pieces before.
   */
  publish(): void {
    const low = (this.#lapUnits + this.#at / unitBytes) | 0
    if (low >>> highShift === this.#stretch) {
      // Release: a reader that loads this value sees every byte below the position.
      Atomics.store(this.#words, publishedAt, low)
    } else {
      storePosition(this.#words, publishedAt, this.#lap + this.#at)
      this.#stretch = low >>> highShift
    }
    wake(this.#words, readerSleepsAt)
  }

  /** No more records will come; readers that wait return at once. */
  close(): void {
    this.publish()
    Atomics.store(this.#words, closedAt, 1)
    wake(this.#words, readerSleepsAt)
  }

  /**
   * True when a message of that size overwrites nothing that a reader with a lease still needs. A
   * lease taken while the writer runs takes effect at the writer's next check of the leases, at
   * most one ring later.
   */
  fits(payloadBytes: number): boolean {
    const { chunkBytes } = this.#ring
    const pieces = payloadBytes <= this.pieceBytesMax ? 1 : payloadBytes / this.pieceBytesMax + 1
    // An upper bound: headers, alignment, and the padding of at most one end of the ring.
    const end = this.#at + payloadBytes + pieces * 2 * recordHeaderBytes + chunkBytes
    if (end <= this.#leaseLimitAt) return true
    const slowest = slowestLease(this.#ring, this.position)
    const reusable = Math.floor(slowest / chunkBytes) * chunkBytes
    this.#leaseLimitAt = reusable + this.#capacity - this.#lap
    return end <= this.#leaseLimitAt
  }

  /** Blocks until the message fits or the timeout; for workers. Publishes first. */
  waitFits(payloadBytes: number, timeoutMs: number): boolean {
    if (this.fits(payloadBytes)) return true
    this.publish()
    sleep(this.#words, writerSleepsAt, timeoutMs, () => this.fits(payloadBytes))
    return this.fits(payloadBytes)
  }

  #writePieces(tag: number, payload: Uint8Array): number {
    assert(payload.length <= this.messageBytesMax, 'a message is at most half a ring')
    let first = -1
    for (let from = 0; from < payload.length; from += this.pieceBytesMax) {
      const piece = payload.subarray(from, from + this.pieceBytesMax)
      this.bytes.set(piece, this.reserve(tag, piece.length))
      const hasMore = from + piece.length < payload.length
      const flags = (hasMore ? moreFlag : 0) | (from === 0 ? 0 : continuationFlag)
      this.data[this.#at >> 2] = piece.length | flags
      const position = this.commit()
      if (first < 0) first = position
      if (hasMore) this.#count -= 1
      this.#isMidMessage = hasMore
    }
    return first
  }

  /** Fills the end of the ring with padding and begins the next lap. */
  #wrap(): void {
    const bytes = this.#capacity - this.#at
    if (bytes > 0) {
      if (this.#capacity > this.#writableAt) this.#reclaim(this.#capacity)
      if (this.#at >= this.#nextChunkAt) this.#startChunk()
      this.data[this.#at >> 2] = paddingFlag | (bytes - recordHeaderBytes)
    }
    this.#lap += this.#capacity
    this.#lapUnits = (this.#lap / unitBytes) | 0
    this.#at = 0
    this.#nextChunkAt -= this.#capacity
    this.#writableAt -= this.#capacity
    this.#leaseLimitAt -= this.#capacity
  }

  #reclaim(endAt: number): void {
    const { chunkBytes } = this.#ring
    const reclaimedTo = Math.ceil((endAt - this.#capacity) / chunkBytes) * chunkBytes
    // Stored before the first byte is overwritten: a reader that reads such a byte and then calls
    // isIntact must see it.
    storePositionFirst(this.#words, reclaimedAt, this.#lap + reclaimedTo)
    this.#writableAt = reclaimedTo + this.#capacity
  }

  /**
   * Records the first record of a chunk. Plain writes: the publish that shows the chunk releases
   * them, the reclaim of the previous chunk guards them.
   */
  #startChunk(): void {
    const { chunkStarts, chunkBytes } = this.#ring
    const chunk = Math.floor(this.#at / chunkBytes)
    chunkStarts[chunk * 2] = this.#lap + this.#at
    chunkStarts[chunk * 2 + 1] = this.#count
    this.#nextChunkAt = (chunk + 1) * chunkBytes
    // A reader finds the newest record by walking from the start of a chunk, so the published
    // position must never lag by more than a chunk. At 0 only padding may be new, not a message.
    if (!this.#isMidMessage && this.#at > 0) this.publish()
  }
}

// Reads records from a ring. A ring has any number of readers, each at its own pace; none blocks
// the writer unless it takes a lease.
// Thread: any; `wait` only in workers, `waitAsync` on the main thread.
//
//   if (reader.poll() === 0) { reader.wait(timeoutMs); continue }
//   while (reader.next()) use(reader.bytes, reader.offset, reader.length, reader.tag)
//   if (!reader.commit()) what was read since poll() may be torn: drop it, it is counted as lost
//
// A reader that was overrun resumes after the newest message; messages confirmed by `commit` and
// messages counted in `lost` add up to exactly those written since the reader's start.

/**
 * A blocking reader leaves the writer alone for about a microsecond after a batch of fewer
 * messages: each look at the ring takes the cache line from the writer, which has to wait for it.
 */
const gatheredMin = 64
const gatherPauses = 64

interface RingReaderOptions {
  /** A checkpoint that was overrun counts its loss; an overrun position starts at the newest. */
  readonly from: 'oldest' | 'newest' | number | RingCheckpoint
  /** The writer's `fits` respects this reader; each lease (0 to 3) has one reader at a time. */
  readonly lease?: number
}

export class RingReader {
  readonly #ring: RingViews
  readonly #mask: number
  readonly #lease: number
  readonly #fence = new Int32Array(1)
  /** The data of the ring, at `dataOffset` of the buffer; `offset` points into it. */
  readonly bytes: Uint8Array<SharedArrayBuffer>
  readonly data: Int32Array<SharedArrayBuffer>
  readonly dataOffset: number
  /** The current record, valid after `next` returned true. */
  offset = 0
  length = 0
  tag = 0
  /** The next record continues this one's payload. */
  hasMore = false
  /** This record continues the payload of the previous one. */
  isContinuation = false
  /** Messages lost to overruns, and how often that happened. */
  lost = 0
  overruns = 0
  #position: number
  // The words of #position, and how far those of an intact ring can be ahead: see `poll`.
  #low = 0
  #high = 0
  readonly #unitsMax: number
  readonly #highSpan: number
  #count: number
  // The open batch: its size, bytes not yet read, offset of the next record, messages in it.
  #batchBytes = 0
  #left = 0
  #stopAt = 0
  #at = 0
  #batchCount = 0
  /** True once the reader has blocked in `wait`; whether the next poll pauses. */
  #isBlocking = false
  #isGathering = false

  constructor(at: RingDescriptor, options: RingReaderOptions) {
    this.#ring = openViews(at)
    this.#mask = this.#ring.capacity - 1
    this.bytes = this.#ring.bytes
    this.data = this.#ring.data
    this.dataOffset = at.byteOffset + dataByte
    this.#lease = options.lease ?? -1
    this.#unitsMax = this.#ring.capacity / unitBytes
    this.#highSpan = highSpanOf(this.#ring.capacity)
    const start = this.#startAt(options.from)
    this.#position = start.position
    this.#low = lowOf(start.position)
    this.#high = highOf(start.position)
    this.#count = start.count
    if (this.#lease >= 0) takeLease(this.#ring, this.#lease, start.position)
  }

  /** Where a reader of this thread or another one can resume. */
  get checkpoint(): RingCheckpoint {
    return { position: this.#position, count: this.#count }
  }

  /** True when the writer has closed the ring and everything is read. */
  get isAtEnd(): boolean {
    // The flag before the position: what was published before the close must still be seen.
    if (Atomics.load(this.#ring.words, closedAt) === 0) return false
    return loadPosition(this.#ring.words, publishedAt) === this.#position
  }

  /**
   * Opens a batch of everything published and returns its size in bytes; 0 when there is nothing.
   * With `bytesMax` the batch ends after the whole message that reaches it. An overrun is
   * detected and counted here or in `commit`.
   */
  poll(bytesMax = this.#ring.capacity): number {
    const { words } = this.#ring
    if (this.#isGathering) this.#gather()
    this.#batchCount = 0
    this.#batchBytes = 0
    this.#left = 0
    this.hasMore = false
    // One atomic call instead of the three of `loadPosition`: a call costs as much as reading a
    // record. The low word acquires everything below it, and the high word, which is stored first.
    const units = (Atomics.load(words, publishedAt) - this.#low) >>> 0
    const ahead = (words[publishedAt + 1]! - this.#high) >>> 0
    if (units === 0 && ahead === 0) return 0
    // Both words near ours: the difference of the low words is that of the positions. No fence:
    // reclaimed only avoids reading what is certainly overwritten; `commit` decides.
    const isNear = units <= this.#unitsMax && ahead <= this.#highSpan
    if (isNear && !this.#isReclaimed()) this.#batchBytes = units * unitBytes
    else if (!this.#pollExactly()) return 0
    this.#left = this.#batchBytes
    this.#stopAt = Math.max(0, this.#left - bytesMax)
    this.#at = this.#position & this.#mask
    return this.#left
  }

  /** Steps to the next record of the batch; false at its end. */
  next(): boolean {
    while (this.#left > this.#stopAt || (this.hasMore && this.#left > 0)) {
      const at = this.#at
      const word = this.data[at >> 2]!
      const length = word & lengthMask
      const size = (length + recordHeaderBytes + 7) & ~7
      if (size > this.#left || at + size > this.#mask + 1) return this.#garbled()
      this.#left -= size
      this.#at = (at + size) & this.#mask
      if (word < 0) {
        // Padding is not a record and must not count against `bytesMax`.
        this.#stopAt = Math.max(0, this.#stopAt - size)
        continue
      }
      this.offset = at + recordHeaderBytes
      this.length = length
      this.tag = this.data[(at >> 2) + 1]!
      this.hasMore = (word & moreFlag) !== 0
      this.isContinuation = (word & continuationFlag) !== 0
      if (!this.hasMore) this.#batchCount += 1
      return true
    }
    return false
  }

  /**
   * Closes the batch after the last record that `next` returned. False when the writer has
   * meanwhile begun to overwrite it: the whole batch is then counted as lost.
   */
  commit(): boolean {
    // The barrier of `isIntact`, and of two words only the atomic call that is needed.
    Atomics.exchange(this.#fence, 0, 0)
    if (this.#isReclaimed() && !this.isIntact(this.#position)) {
      this.#recover()
      return false
    }
    this.#isGathering = this.#isBlocking && this.#batchCount < gatheredMin
    this.#count += this.#batchCount
    this.#moveTo(this.#position + (this.#batchBytes - this.#left))
    this.#batchBytes = this.#left
    this.#batchCount = 0
    return true
  }

  /** True while the writer has not reclaimed that position; call it after reading. */
  isIntact(position: number): boolean {
    return isIntact(this.#ring, position, this.#fence)
  }

  /** Blocks until something is published, the ring is closed or the timeout. For workers. */
  wait(timeoutMs: number): void {
    this.#isBlocking = true
    sleep(this.#ring.words, readerSleepsAt, timeoutMs, () => this.#hasWork())
  }

  /** The same for the main thread. Does not keep the process alive. */
  waitAsync(timeoutMs: number): Promise<void> {
    return sleepAsync(this.#ring.words, readerSleepsAt, timeoutMs, () => this.#hasWork())
  }

  #gather(): void {
    this.#isGathering = false
    for (let done = 0; done < gatherPauses; done += 1) pause()
  }

  #hasWork(): boolean {
    const { words } = this.#ring
    return Atomics.load(words, publishedAt) !== this.#low || Atomics.load(words, closedAt) !== 0
  }

  /** False when the position is certainly not reclaimed; true asks for an exact look. */
  #isReclaimed(): boolean {
    const { words } = this.#ring
    const isLowAhead = ((Atomics.load(words, reclaimedAt) - this.#low) | 0) > 0
    return isLowAhead || ((words[reclaimedAt + 1]! - this.#high) | 0) > this.#highSpan
  }

  /** Opens a batch from whole positions; false when there is none, or an overrun was counted. */
  #pollExactly(): boolean {
    const published = loadPosition(this.#ring.words, publishedAt)
    if (published === this.#position) return false
    if (this.#position < loadPosition(this.#ring.words, reclaimedAt)) {
      this.#recover()
      return false
    }
    this.#batchBytes = published - this.#position
    return true
  }

  #startAt(from: RingReaderOptions['from']): RingCheckpoint {
    if (from === 'newest') return newest(this.#ring, this.#fence)
    if (from === 'oldest') return oldest(this.#ring, this.#fence)
    // A checkpoint may be overrun already: the first poll detects and counts that.
    if (typeof from === 'object') return from
    const known = countUpTo(this.#ring, from, this.#fence)
    if (known !== null) return known
    this.overruns += 1
    return newest(this.#ring, this.#fence)
  }

  #recover(): void {
    const checkpoint = newest(this.#ring, this.#fence)
    this.overruns += 1
    this.lost += checkpoint.count - this.#count
    this.#count = checkpoint.count
    this.#batchBytes = 0
    this.#left = 0
    this.#batchCount = 0
    this.#moveTo(checkpoint.position)
  }

  #moveTo(position: number): void {
    this.#position = position
    this.#low = lowOf(position)
    this.#high = highOf(position)
    if (this.#lease >= 0) moveLease(this.#ring, this.#lease, position)
  }

  /** An invalid header was overwritten while it was read; any other cause is a bug of ours. */
  #garbled(): false {
    assert(!this.isIntact(this.#position), 'an intact ring has whole records')
    return false
  }
}
