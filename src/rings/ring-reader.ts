// Reads records from a ring. A ring has any number of readers, each at its own pace; none blocks
// the writer unless it takes a lease.
// Thread: any; `wait` only in workers, `waitAsync` on the main thread. Memory layout: layout.ts.
//
//   if (reader.poll() === 0) { reader.wait(timeoutMs); continue }
//   while (reader.next()) use(reader.bytes, reader.offset, reader.length, reader.tag)
//   if (!reader.commit()) what was read since poll() may be torn: drop it, it is counted as lost
//
// A reader that was overrun resumes after the newest message; messages confirmed by `commit` and
// messages counted in `lost` add up to exactly those written since the reader's start.
import { assert } from '../base/assert.ts'
import { countUpTo, isIntact, newest, oldest, type RingCheckpoint } from './checkpoints.ts'
import {
  closedAt,
  continuationFlag,
  dataByte,
  lengthMask,
  loadPosition,
  moreFlag,
  openViews,
  publishedAt,
  type RingDescriptor,
  type RingViews,
  readerSleepsAt,
  reclaimedAt,
  recordHeaderBytes,
} from './layout.ts'
import { moveLease, takeLease } from './leases.ts'
import { sleep, sleepAsync } from './wake.ts'

export interface RingReaderOptions {
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
  #count: number
  // The open batch: its size, bytes not yet read, offset of the next record, messages in it.
  #batchBytes = 0
  #left = 0
  #stopAt = 0
  #at = 0
  #batchCount = 0

  constructor(at: RingDescriptor, options: RingReaderOptions) {
    this.#ring = openViews(at)
    this.#mask = this.#ring.capacity - 1
    this.bytes = this.#ring.bytes
    this.data = this.#ring.data
    this.dataOffset = at.byteOffset + dataByte
    this.#lease = options.lease ?? -1
    const start = this.#startAt(options.from)
    this.#position = start.position
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
    const published = loadPosition(this.#ring.words, publishedAt)
    this.#batchCount = 0
    this.#batchBytes = 0
    this.#left = 0
    this.hasMore = false
    if (published === this.#position) return 0
    // No fence: this check only avoids reading what is certainly overwritten; `commit` decides.
    if (this.#position < loadPosition(this.#ring.words, reclaimedAt)) {
      this.#recover()
      return 0
    }
    this.#batchBytes = published - this.#position
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
    if (!isIntact(this.#ring, this.#position, this.#fence)) {
      this.#recover()
      return false
    }
    this.#count += this.#batchCount
    this.#moveTo(this.#position + this.#batchBytes - this.#left)
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
    sleep(this.#ring.words, readerSleepsAt, timeoutMs, () => this.#hasWork())
  }

  /** The same for the main thread. Does not keep the process alive. */
  waitAsync(timeoutMs: number): Promise<void> {
    return sleepAsync(this.#ring.words, readerSleepsAt, timeoutMs, () => this.#hasWork())
  }

  #hasWork(): boolean {
    const { words } = this.#ring
    return (
      loadPosition(words, publishedAt) !== this.#position || Atomics.load(words, closedAt) !== 0
    )
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
    if (this.#lease >= 0) moveLease(this.#ring, this.#lease, position)
  }

  /** An invalid header was overwritten while it was read; any other cause is a bug of ours. */
  #garbled(): false {
    assert(!this.isIntact(this.#position), 'an intact ring has whole records')
    return false
  }
}
