// The writing end of a ring: one per ring, stopped by nobody. The bytes are drawn in layout.ts.
// Thread: any. Readers (ring-reader.ts) usually live in other ones.
//
//   writer.write(tag, payload)   or   offset = writer.reserve(tag, length); fill; writer.commit()
//   writer.publish()                  once per batch: readers see it all, sleepers are woken
//
// Where loss is not allowed, readers take a hold and the writer asks `fits` before it writes.
import { assert } from '../base/assert.ts'
import { slowestHold } from './holds.ts'
import {
  chunks,
  closedAt,
  continuationFlag,
  formatRing,
  lengthMask,
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
  writerSleepsAt,
} from './layout.ts'
import { isMarked, newest, type RingCheckpoint, recordBytes } from './marks.ts'
import { sleep, sleepAsync, wake } from './wake.ts'

export class RingWriter {
  readonly #ring: RingViews
  readonly #mask: number
  /** Room for payloads that are built in place; offsets from `reserve` point into these. */
  readonly bytes: Uint8Array<SharedArrayBuffer>
  readonly data: Int32Array<SharedArrayBuffer>
  /** Longest payload of one record, and of one message over several records. */
  readonly pieceBytesMax: number
  readonly messageBytesMax: number
  #position: number
  #count: number
  #nextMark: number
  /** Bytes up to here may be written without reclaiming another chunk. */
  #writable: number
  /** No reader with a hold needs the bytes that a record ending here overwrites. */
  #heldEnd = 0
  #reservedWord = -1

  private constructor(ring: RingViews, start: RingCheckpoint & { readonly nextMark: number }) {
    this.#ring = ring
    this.#mask = ring.capacity - 1
    this.bytes = ring.bytes
    this.data = ring.data
    this.pieceBytesMax = Math.min(pieceBytesMax, ring.chunkBytes - recordHeaderBytes)
    this.messageBytesMax = ring.capacity / 2
    this.#position = start.position
    this.#count = start.count
    this.#nextMark = start.nextMark
    this.#writable = loadPosition(ring.words, reclaimedAt) + ring.capacity
  }

  /** Formats the memory and becomes its only writer. */
  static create(at: RingDescriptor): RingWriter {
    formatRing(at)
    return new RingWriter(openViews(at), { position: 0, count: 0, nextMark: 0 })
  }

  /** Takes over from a writer that is gone; what it had not published never happened. */
  static resume(at: RingDescriptor): RingWriter {
    const ring = openViews(at)
    const start = newest(ring, new Int32Array(1))
    const chunkStart = Math.floor(start.position / ring.chunkBytes) * ring.chunkBytes
    const nextMark = isMarked(ring, start.position) ? chunkStart + ring.chunkBytes : chunkStart
    return new RingWriter(ring, { ...start, nextMark })
  }

  /** Where the next record goes. */
  get position(): number {
    return this.#position
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
    let at = this.#position & this.#mask
    if (at + size > this.#ring.capacity) {
      this.#pad(this.#ring.capacity - at)
      at = 0
    }
    if (this.#position + size > this.#writable) this.#reclaim(this.#position + size)
    const word = at >> 2
    this.data[word] = length
    this.data[word + 1] = tag
    this.#reservedWord = word
    return at + recordHeaderBytes
  }

  /** Closes the reserved record, shortened to `length` if given; returns its position. */
  commit(length?: number): number {
    if (length !== undefined) {
      assert(length <= (this.data[this.#reservedWord]! & lengthMask), 'a commit only shortens')
      this.data[this.#reservedWord] = length
    }
    return this.#close(this.data[this.#reservedWord]!)
  }

  /** Shows readers everything written so far and wakes those that sleep. Once per batch. */
  publish(): void {
    storePosition(this.#ring.words, publishedAt, this.#position)
    wake(this.#ring.words, readerSleepsAt)
  }

  /** No more records will come; readers that wait return at once. */
  close(): void {
    this.publish()
    Atomics.store(this.#ring.words, closedAt, 1)
    wake(this.#ring.words, readerSleepsAt)
  }

  /**
   * True when a message of that size overtakes no reader that has a hold. A hold taken while the
   * writer runs binds it only from the next time it has to look, at most one ring later.
   */
  fits(payloadBytes: number): boolean {
    const { capacity, chunkBytes } = this.#ring
    const pieces = payloadBytes <= this.pieceBytesMax ? 1 : payloadBytes / this.pieceBytesMax + 1
    // An upper bound: headers, alignment, and the padding of at most one end of the ring.
    const end = this.#position + payloadBytes + pieces * 2 * recordHeaderBytes + chunkBytes
    if (end <= this.#heldEnd) return true
    const slowest = slowestHold(this.#ring, this.#position)
    this.#heldEnd = Math.floor(slowest / chunkBytes) * chunkBytes + capacity
    return end <= this.#heldEnd
  }

  /** Blocks until the message fits or the time is over; for workers. Publishes first. */
  waitFits(payloadBytes: number, timeoutMs: number): boolean {
    if (this.fits(payloadBytes)) return true
    this.publish()
    sleep(this.#ring.words, writerSleepsAt, timeoutMs, () => this.fits(payloadBytes))
    return this.fits(payloadBytes)
  }

  /** The same for the main thread; does not keep the process alive. */
  async waitFitsAsync(payloadBytes: number, timeoutMs: number): Promise<boolean> {
    if (this.fits(payloadBytes)) return true
    this.publish()
    await sleepAsync(this.#ring.words, writerSleepsAt, timeoutMs, () => this.fits(payloadBytes))
    return this.fits(payloadBytes)
  }

  #writePieces(tag: number, payload: Uint8Array): number {
    assert(payload.length <= this.messageBytesMax, 'a message is at most half a ring')
    let first = -1
    for (let from = 0; from < payload.length; from += this.pieceBytesMax) {
      const piece = payload.subarray(from, from + this.pieceBytesMax)
      this.bytes.set(piece, this.reserve(tag, piece.length))
      const more = from + piece.length < payload.length ? moreFlag : 0
      const word = piece.length | more | (from === 0 ? 0 : continuationFlag)
      this.data[this.#reservedWord] = word
      const position = this.#close(word)
      if (first < 0) first = position
    }
    return first
  }

  #close(lengthWord: number): number {
    const start = this.#position
    if (start >= this.#nextMark) this.#mark(start)
    this.#position = start + recordBytes(lengthWord)
    if ((lengthWord & (moreFlag | paddingFlag)) === 0) this.#count += 1
    return start
  }

  /** Plain writes: the publish that shows the chunk releases them, its reclaim guards them. */
  #mark(start: number): void {
    const { marks, chunkBytes } = this.#ring
    const chunk = Math.floor(start / chunkBytes)
    const at = (chunk % chunks) * 2
    marks[at] = start
    marks[at + 1] = this.#count
    this.#nextMark = (chunk + 1) * chunkBytes
  }

  #pad(bytes: number): void {
    if (this.#position + bytes > this.#writable) this.#reclaim(this.#position + bytes)
    const word = paddingFlag | (bytes - recordHeaderBytes)
    this.data[(this.#position & this.#mask) >> 2] = word
    this.#close(word)
  }

  #reclaim(end: number): void {
    const { capacity, chunkBytes, words } = this.#ring
    const reclaimed = Math.ceil((end - capacity) / chunkBytes) * chunkBytes
    // Told before the first byte is overwritten: a reader that reads such a byte and then asks
    // isIntact must learn of it.
    storePositionFirst(words, reclaimedAt, reclaimed)
    this.#writable = reclaimed + capacity
  }
}
