// Writes records to a ring. A ring has one writer, which never waits for readers by itself.
// Readers (ring-reader.ts) usually run on other threads. Memory layout: layout.ts.
//
//   writer.write(tag, payload)   or   offset = writer.reserve(tag, length); fill; writer.commit()
//   writer.publish()                  once per batch: readers see it all, sleepers are woken
//
// Backpressure: where loss is not allowed, readers take a lease and the writer calls `fits` before
// it writes.
import { assert } from '../assert.ts'
import { isChunkStarted, newest, type RingCheckpoint } from './checkpoints.ts'
import {
  closedAt,
  continuationFlag,
  formatRing,
  highShift,
  loadPosition,
  moreFlag,
  openViews,
  paddingFlag,
  pieceBytesMax,
  publishedAt,
  type RingDescriptor,
  type RingViews,
  readerSleepsAt,
  reclaimedAt,
  recordHeaderBytes,
  storePosition,
  storePositionFirst,
  unitBytes,
  writerSleepsAt,
} from './layout.ts'
import { slowestLease } from './leases.ts'
import { sleep, wake } from './wake.ts'

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
