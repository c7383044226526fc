// Execution source that follows a live Monad event ring and reopens the file when it is replaced.
// Thread: source worker. A ring that existed at startup is joined at its newest event; a ring that
// replaces it, or restarts, is read from its first. Sequence numbers are the ring's own.
import { closeSync, fstatSync, openSync, readSync, statSync } from 'node:fs'
import { Fault, messageOf } from '../../base/errors.ts'
import type { RingGeometry } from '../../chain/evm/event-ring.ts'
import {
  descriptor,
  descriptorOffset,
  parseRingHeader,
  payloadOffset,
  ringHeader,
  windowStepBytes,
} from '../../chain/evm/event-ring.ts'
import { readU32, readU64 } from '../../chain/evm/words.ts'
import type { ExecutionSink, ExecutionSource } from '../ports.ts'
import { deliver, type Pacer } from './playback.ts'

/** Idle time without events after which the file itself is checked. */
const checkIdleMs = 100
/** Retry interval for a file that is missing or incomplete. */
const appearMs = 100
/** Polling slows down while idle: a new event is seen after 1 ms, later after 10 ms. */
const pollMsMin = 1
const pollMsMax = 10
const slowAfterMs = 2000
/** Batches delivered before yielding to other work of the thread. */
const turnBatches = 16

interface OpenRing {
  readonly fd: number
  readonly device: number
  readonly inode: number
  readonly geometry: RingGeometry
  readonly newest: number
}

export class RingFile implements ExecutionSource {
  readonly #path: string
  readonly #pacer: Pacer

  constructor(options: { readonly path: string }, pacer: Pacer) {
    this.#path = options.path
    this.#pacer = pacer
  }

  async run(sink: ExecutionSink): Promise<void> {
    let before: { device: number; inode: number; last: number } | null = null
    while (!this.#pacer.isStopped) {
      const ring = this.#open()
      if (ring === null) {
        await this.#pacer.until(this.#pacer.clock.monotonicMs() + appearMs)
        continue
      }
      const isSame: boolean =
        before !== null &&
        before.device === ring.device &&
        before.inode === ring.inode &&
        before.last <= ring.newest
      const last: number = before === null ? ring.newest : isSame ? before.last : 0
      const reader = new RingFileReader(ring.fd, ring.geometry, last)
      try {
        await this.#follow(ring, reader, sink)
      } finally {
        closeSync(ring.fd)
      }
      before = { device: ring.device, inode: ring.inode, last: reader.last }
    }
  }

  stop(): void {
    this.#pacer.stop()
  }

  /** Reads until the ring is truncated, replaced or restarted, or the source is stopped. */
  async #follow(ring: OpenRing, reader: RingFileReader, sink: ExecutionSink): Promise<void> {
    const { clock } = this.#pacer
    let activeMs = clock.monotonicMs()
    let checkedMs = activeMs
    let batches = 0
    while (!this.#pacer.isStopped) {
      const outcome = reader.readBatch(sink)
      const nowMs = clock.monotonicMs()
      if (outcome === 'broken') return
      if (outcome === 'read') {
        activeMs = nowMs
        batches += 1
        if (batches % turnBatches === 0) await this.#pacer.until(nowMs)
        continue
      }
      if (nowMs - activeMs >= checkIdleMs && nowMs - checkedMs >= checkIdleMs) {
        checkedMs = nowMs
        if (!this.#isStill(ring, reader)) return
      }
      await this.#pacer.until(nowMs + (nowMs - activeMs < slowAfterMs ? pollMsMin : pollMsMax))
    }
  }

  /** True while the path refers to this same file and its writer has not restarted. */
  #isStill(ring: OpenRing, reader: RingFileReader): boolean {
    const newest = reader.newest()
    if (newest === null || newest < reader.last) return false
    const found = statSync(this.#path, { throwIfNoEntry: false })
    // A missing path may reappear; until then the open file is read.
    return found === undefined || (found.ino === ring.inode && found.dev === ring.device)
  }

  /** The ring, or null while the file is absent or incomplete. Throws a Fault for a wrong file. */
  #open(): OpenRing | null {
    let fd: number
    try {
      fd = openSync(this.#path, 'r')
    } catch (error) {
      // Reason for the cast: Node puts the system's code on its errors without a type for it.
      if ((error as { code?: string }).code === 'ENOENT') return null
      throw new Fault('ring-unreadable', `cannot open the event ring: ${messageOf(error)}`, {
        cause: error,
        retryable: true,
      })
    }
    try {
      const ring = readRing(fd)
      if (ring === null) closeSync(fd)
      return ring
    } catch (error) {
      closeSync(fd)
      throw error
    }
  }
}

function readRing(fd: number): OpenRing | null {
  const header = new Uint8Array(ringHeader.usedBytes)
  const got = readSync(fd, header, 0, header.length, 0)
  // A writer that does not create the file by rename has a short or blank header for a moment.
  if (got < header.length || header.every((byte) => byte === 0)) return null
  const parsed = parseRingHeader(header)
  if (!parsed.ok) throw new Fault('ring-refused', parsed.refusal.message, { retryable: true })
  const { size, dev, ino } = fstatSync(fd)
  if (size < parsed.value.fileBytes) return null
  const newest = readU64(header, ringHeader.lastSeqno)
  return { fd, device: dev, inode: ino, geometry: parsed.value, newest }
}

// Reads events from an open ring file by the reader protocol, with positional reads only.
// Thread: source worker. Never maps the file: a mapping dies with the file's last page (SIGBUS).
//
// A batch is read in this order, and each step validates the one before it:
//   1. descriptors       a slot that has the expected number has its payload written
//   2. payload bytes     of all those slots, in one or two pieces
//   3. header            the window: payloads below it may have been overwritten while we read
//   4. descriptors again equal bytes mean that no slot was overwritten or torn while we read

const batchBytes = 64 * 1024
const batchEvents = batchBytes / descriptor.bytes
/** Payload bytes read at once; a longer single payload gets its own buffer, up to the next. */
const spanBytes = 1024 * 1024
/** The writer's window step; a longer payload cannot be read safely and is reported as a gap. */
const payloadBytesMax = windowStepBytes
/** Reads of the newest slot before the one before it is used instead. */
const commitTries = 100

/** `read`: events were read. `idle`: none is ready. `broken`: the file is truncated. */
type RingRead = 'read' | 'idle' | 'broken'

/** The file is shorter than its header states. */
class ShortFile extends Error {}

export class RingFileReader {
  readonly #fd: number
  readonly #geometry: RingGeometry
  readonly #batch = new Uint8Array(batchBytes)
  readonly #recheck = new Uint8Array(batchBytes)
  readonly #header = new Uint8Array(ringHeader.usedBytes)
  #span = new Uint8Array(spanBytes)
  /** The last sequence number that was delivered or reported as lost. */
  last: number

  constructor(fd: number, geometry: RingGeometry, last: number) {
    this.#fd = fd
    this.#geometry = geometry
    this.last = last
  }

  /** Delivers every event of one batch to the sink, or reports the gap. */
  readBatch(sink: ExecutionSink): RingRead {
    try {
      return this.#readBatch(sink)
    } catch (error) {
      if (error instanceof ShortFile) return 'broken'
      throw error
    }
  }

  /** The newest sequence number that the writer has allocated; null for a truncated file. */
  newest(): number | null {
    try {
      this.#readHeader()
      return readU64(this.#header, ringHeader.lastSeqno)
    } catch (error) {
      if (error instanceof ShortFile) return null
      throw error
    }
  }

  #readBatch(sink: ExecutionSink): RingRead {
    const expected = this.last + 1
    const offset = descriptorOffset(this.#geometry, expected)
    // One slot shows whether an event is ready; only then the whole batch is read.
    this.#read(this.#batch, descriptor.bytes, offset)
    const found = readU64(this.#batch, descriptor.seqno)
    if (found < expected) return 'idle'
    if (found > expected) return this.#lose(sink)
    const slots = Math.min(batchEvents, (this.#geometry.payloadBase - offset) / descriptor.bytes)
    this.#read(this.#batch, slots * descriptor.bytes, offset)
    const ready = this.#countReady(expected, slots)
    if (ready === 0) return this.#lose(sink)
    return this.#take(sink, { expected, offset, ready })
  }

  #take(
    sink: ExecutionSink,
    { expected, offset, ready }: { expected: number; offset: number; ready: number },
  ): RingRead {
    const span = this.#spanOf(ready)
    if (span.bytes > 0) this.#readPayloads(span.start, span.bytes)
    this.#readHeader()
    const windowStart = readU64(this.#header, ringHeader.windowStart)
    const bytesRead = span.events * descriptor.bytes
    this.#read(this.#recheck, bytesRead, offset)
    const before = this.#batch.subarray(0, bytesRead)
    const isWhole = Buffer.compare(before, this.#recheck.subarray(0, bytesRead)) === 0
    for (let index = 0; index < span.events; index++) {
      const at = index * descriptor.bytes
      if (!isWhole && !this.#isUnchanged(at)) return this.#lose(sink)
      const size = readU32(this.#batch, at + descriptor.payloadSize)
      const offsetInRing = readU64(this.#batch, at + descriptor.payloadOffset)
      if (size > 0 && offsetInRing < windowStart) return this.#lose(sink)
      this.last = expected + index
      if (size > payloadBytesMax) sink.gap(this.last, this.last)
      else {
        const bytes = this.#batch.subarray(at, at + descriptor.bytes)
        const from = size === 0 ? 0 : offsetInRing - span.start
        deliver(sink, bytes, this.#span, from, size)
      }
    }
    sink.flush()
    return 'read'
  }

  #countReady(expected: number, slots: number): number {
    let ready = 0
    while (ready < slots && readU64(this.#batch, ready * descriptor.bytes) === expected + ready)
      ready += 1
    return ready
  }

  /** How many of the ready events' payloads are within one readable span, and that span. */
  #spanOf(ready: number): { events: number; start: number; bytes: number } {
    let start = Number.POSITIVE_INFINITY
    let end = 0
    for (let index = 0; index < ready; index++) {
      const at = index * descriptor.bytes
      const size = readU32(this.#batch, at + descriptor.payloadSize)
      if (size === 0 || size > payloadBytesMax) continue
      const offsetInRing = readU64(this.#batch, at + descriptor.payloadOffset)
      const nextStart = Math.min(start, offsetInRing)
      const nextEnd = Math.max(end, offsetInRing + size)
      const isFirst = end === 0
      if (!isFirst && nextEnd - nextStart > spanBytes)
        return { events: index, start, bytes: end - start }
      start = nextStart
      end = nextEnd
    }
    if (end === 0) start = 0
    return { events: ready, start, bytes: end - start }
  }

  #readPayloads(start: number, bytes: number): void {
    if (bytes > this.#span.length) this.#span = new Uint8Array(bytes)
    const { payloadBytes, payloadBase } = this.#geometry
    const head = Math.min(bytes, payloadBytes - (start % payloadBytes))
    this.#read(this.#span, head, payloadOffset(this.#geometry, start))
    // Bytes past the physical end wrap around to the beginning of the buffer.
    if (head < bytes) this.#read(this.#span.subarray(head), bytes - head, payloadBase)
  }

  #isUnchanged(at: number): boolean {
    for (let byte = at; byte < at + descriptor.bytes; byte++)
      if (this.#batch[byte] !== this.#recheck[byte]) return false
    return true
  }

  /** Resumes at a position that the writer will not reach soon and reports the gap before it. */
  #lose(sink: ExecutionSink): RingRead {
    this.#readHeader()
    const newest = readU64(this.#header, ringHeader.lastSeqno)
    const resumed = this.#resumePoint(newest)
    if (resumed <= this.last + 1) return 'idle'
    sink.gap(this.last + 1, resumed - 1)
    sink.flush()
    this.last = resumed - 1
    return 'read'
  }

  /**
   * As far back as a quarter of the ring, so that a stall loses as little as possible; closer where
   * payloads have already expired; at worst the newest event that is committed.
   */
  #resumePoint(newest: number): number {
    const window = readU64(this.#header, ringHeader.windowStart)
    for (let back = this.#geometry.capacity / 4; back >= 1; back = Math.floor(back / 4)) {
      const seqno = newest - back
      if (seqno <= this.last) continue
      if (this.#payloadOffsetOf(seqno) > window) return seqno
    }
    for (let tries = 0; tries < commitTries; tries++)
      if (this.#payloadOffsetOf(newest) >= 0) return newest
    return newest - 1
  }

  /** Virtual offset of an event's payload; -1 when the slot has another event. */
  #payloadOffsetOf(seqno: number): number {
    this.#read(this.#recheck, descriptor.bytes, descriptorOffset(this.#geometry, seqno))
    if (readU64(this.#recheck, descriptor.seqno) !== seqno) return -1
    return readU64(this.#recheck, descriptor.payloadOffset)
  }

  #readHeader(): void {
    this.#read(this.#header, ringHeader.usedBytes, 0)
  }

  /** Positional reads in pieces of 64 KiB; an empty read means that the file was truncated. */
  #read(target: Uint8Array, bytes: number, offset: number): void {
    for (let done = 0; done < bytes; ) {
      const count = Math.min(batchBytes, bytes - done)
      const got = readSync(this.#fd, target, done, count, offset + done)
      if (got === 0) throw new ShortFile()
      done += got
    }
  }
}
