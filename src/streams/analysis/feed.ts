// Routes the events of a source into the event ring and the control ring. Thread: source.
//
//   transaction-level events -> event ring     see event-record.ts
//   block-level events       -> control ring   with the positions of the block's records
//   logs, calls, outputs     -> dropped: they have no reader; their seqnos are counted
//
// A block that was not seen whole is never analysed: its BlockEnd carries no range.

import { chunks } from '../../base/rings/layout.ts'
import { RingWriter } from '../../base/rings/ring-writer.ts'
import { descriptor as layout } from '../../chain/evm/event-ring.ts'
import { EventType, eventTypeMax } from '../../chain/evm/event-type.ts'
import { differenceU64 } from '../../chain/evm/words.ts'
import { SyncTable } from './block-jobs.ts'
import { controlTag, eventHeadBytes, gapBytes, rangeStatus } from './control.ts'
import { RecordWriter, recordBytes } from './event-record.ts'
import type { AnalysisMemory } from './memory.ts'

// Destination of each event type; 0 means dropped.
const record = 1
const block = 2
const routes = new Uint8Array(eventTypeMax + 1)
for (const type of [
  EventType.TxnHeaderStart,
  EventType.TxnAccessListEntry,
  EventType.TxnAuthListEntry,
  EventType.TxnPerfEvmEnter,
  EventType.TxnPerfEvmExit,
  EventType.TxnEnd,
  EventType.AccountAccess,
  EventType.StorageAccess,
])
  routes[type] = record
for (const type of [
  EventType.BlockStart,
  EventType.BlockReject,
  EventType.BlockEnd,
  EventType.BlockQc,
  EventType.BlockFinalized,
  EventType.BlockVerified,
])
  routes[type] = block

const two32 = 0x1_0000_0000
/** Ring space is checked in steps, so that the check costs nothing per record. */
const spaceStepBytes = 256 * 1024
/** Timeout of one wait for ring space, after which the source checks whether to stop. */
const spaceWaitMs = 100

export interface FeedOptions {
  /** Backpressure: waits for readers instead of overwriting what they have not read. */
  readonly isLossless: boolean
  /** The main thread's monotonic clock, read in this thread. */
  readonly nowMs: () => number
  /** Whether the source must stop; checked while it waits for ring space. */
  readonly isStopping: () => boolean
}

/** The sink of an ExecutionSource (upstream/ports.ts). */
export class EventFeed {
  readonly #events: RingWriter
  readonly #records: RecordWriter
  readonly #control: RingWriter
  readonly #syncTable: SyncTable
  readonly #options: FeedOptions
  readonly #blockBytesMax: number
  readonly #startDescriptor = new Uint8Array(layout.bytes)
  readonly #ownWords = new Uint32Array(layout.bytes / 4)
  readonly #ownBytes = new Uint8Array(this.#ownWords.buffer)
  /** The descriptor array of the last event, and its words (its own, or a copy). */
  #lastDescriptor: Uint8Array | null = null
  #words: Uint32Array = this.#ownWords
  #seqno = 0
  #isDirty = false
  /** Number of control messages that are published. */
  #publishedCount = 0
  // The open block: between its BlockStart and BlockEnd.
  #status: number = rangeStatus.none
  #from = 0
  #firstSeqno = 0
  #txnCount = 0
  #spaceUntil = 0
  /** Stopped while it waited for space: later events are dropped. */
  #isClosed = false

  constructor(at: AnalysisMemory, options: FeedOptions) {
    this.#events = RingWriter.resume(at.eventRing)
    this.#records = new RecordWriter(this.#events)
    this.#control = RingWriter.resume(at.controlRing)
    this.#syncTable = new SyncTable(at)
    this.#options = options
    const capacity = this.#events.bytes.length
    // The writer reclaims whole chunks, and may be anywhere inside one at either end.
    this.#blockBytesMax = capacity - (3 * capacity) / chunks
  }

  event(descriptor: Uint8Array, payload: Uint8Array, at = 0, size = payload.length): void {
    if (this.#isClosed) return
    if (descriptor !== this.#lastDescriptor) this.#readDescriptor(descriptor)
    const words = this.#words
    const seqno = words[0]! + words[1]! * two32
    if (seqno !== this.#seqno + 1 && this.#seqno !== 0) this.#jump(seqno)
    this.#seqno = seqno
    this.#isDirty = true
    const type = words[layout.type / 4]! & 0xffff
    const route = routes[type]
    if (route === record) {
      if (this.#status === rangeStatus.whole) this.#record(type, payload, at, size)
    } else if (route === block) this.#block(type, descriptor, payload.subarray(at, at + size))
    else if (type === EventType.RecordError) this.#loseOpenBlock(seqno, seqno)
  }

  /** True for types of which only the sequence number is kept. */
  ignores(type: number): boolean {
    return routes[type] === 0
  }

  gap(from: number, to: number): void {
    this.#seqno = to
    this.#loseOpenBlock(from, to)
  }

  flush(): void {
    if (!this.#isDirty) return
    this.#isDirty = false
    this.#syncTable.noteEvent(this.#seqno, this.#options.nowMs())
    this.#publish()
  }

  /**
   * Sends the end of the recording: no more events follow. Not for a source that was stopped to be
   * restarted. The end is no event: it must not make a silent source look alive.
   */
  end(): void {
    if (this.#options.isStopping() || !this.#waitForControlSpace(0)) return
    this.#control.reserve(controlTag.ended, 0)
    this.#control.commit()
    this.flush()
    this.#publish()
  }

  #publish(): void {
    if (this.#publishedCount === this.#control.count) return
    this.#publishedCount = this.#control.count
    // The records first: a thread that reads the control message finds them published.
    this.#events.publish()
    this.#control.publish()
  }

  /** Handles a source that skips numbers without a gap, or restarts at an earlier number. */
  #jump(seqno: number): void {
    if (seqno > this.#seqno) this.#loseOpenBlock(this.#seqno + 1, seqno - 1)
    else if (this.#status !== rangeStatus.none) this.#loseOpenBlock(this.#firstSeqno, this.#seqno)
  }

  #loseOpenBlock(from: number, to: number): void {
    this.#status = rangeStatus.none
    if (!this.#waitForControlSpace(gapBytes)) return
    const offset = this.#control.reserve(controlTag.gap, gapBytes)
    const view = this.#viewAt(offset)
    view.setFloat64(0, this.#options.nowMs(), true)
    view.setFloat64(8, from, true)
    view.setFloat64(16, to, true)
    this.#control.commit()
    this.#isDirty = true
    this.flush()
  }

  /** Sources pass the same array for every event, or another one each time. */
  #readDescriptor(descriptor: Uint8Array): void {
    if (descriptor.byteOffset % 4 === 0) {
      this.#lastDescriptor = descriptor
      this.#words = new Uint32Array(descriptor.buffer, descriptor.byteOffset, layout.bytes / 4)
      return
    }
    this.#lastDescriptor = null
    this.#ownBytes.set(descriptor)
    this.#words = this.#ownWords
  }

  #record(type: number, payload: Uint8Array, from: number, size: number): void {
    if (type === EventType.TxnHeaderStart) this.#txnCount += 1
    const length = recordBytes(type, size)
    if (this.#events.position + length > this.#spaceUntil && !this.#waitForSpace(length)) return
    this.#records.write(type, this.#words, payload, from, length)
  }

  /** Waits for space for at least `length` more bytes, or gives up the open block. */
  #waitForSpace(length: number): boolean {
    const need = Math.max(length * 2, spaceStepBytes)
    const { position } = this.#events
    if (
      position - this.#from + need > this.#blockBytesMax ||
      length > this.#events.messageBytesMax
    ) {
      this.#status = rangeStatus.tooLarge
      return false
    }
    if (!this.#waitForFit(this.#events, need)) return false
    this.#spaceUntil = position + need
    return true
  }

  #block(type: number, descriptor: Uint8Array, payload: Uint8Array): void {
    if (type === EventType.BlockStart) this.#open(descriptor)
    const isEnd = type === EventType.BlockEnd
    const length = eventHeadBytes + layout.bytes + payload.length
    if (length > this.#control.pieceBytesMax || !this.#waitForControlSpace(length)) return
    const offset = this.#control.reserve(controlTag.event, length)
    const view = this.#viewAt(offset)
    view.setFloat64(0, this.#options.nowMs(), true)
    view.setFloat64(8, this.#from, true)
    view.setFloat64(16, this.#events.position, true)
    view.setFloat64(24, this.#firstSeqno, true)
    view.setFloat64(32, this.#txnCount, true)
    view.setFloat64(40, isEnd ? this.#wallNs(descriptor) : 0, true)
    view.setFloat64(48, isEnd ? this.#status : rangeStatus.none, true)
    this.#control.bytes.set(descriptor, offset + eventHeadBytes)
    this.#control.bytes.set(payload, offset + eventHeadBytes + layout.bytes)
    this.#control.commit()
    if (isEnd || type === EventType.BlockReject) this.#status = rangeStatus.none
    // A BlockEnd is published at once; other events wait for the end of the source's batch, because
    // each wake-up of the main thread costs more than hundreds of events.
    if (isEnd) this.flush()
  }

  #open(descriptor: Uint8Array): void {
    this.#startDescriptor.set(descriptor)
    this.#from = this.#events.position
    this.#firstSeqno = this.#seqno
    this.#txnCount = 0
    this.#status = rangeStatus.whole
  }

  /** At least 0: different threads of the node take the times. */
  #wallNs(end: Uint8Array): number {
    if (this.#status === rangeStatus.none) return 0
    return Math.max(0, differenceU64(end, layout.timeNs, this.#startDescriptor, layout.timeNs))
  }

  #waitForControlSpace(length: number): boolean {
    return this.#waitForFit(this.#control, length)
  }

  /** Where loss is allowed the writer overruns its readers; otherwise it waits for them. */
  #waitForFit(ring: RingWriter, length: number): boolean {
    if (!this.#options.isLossless) return true
    while (!ring.waitFits(length, spaceWaitMs))
      if (this.#options.isStopping()) {
        this.#isClosed = true
        return false
      }
    return true
  }

  #viewAt(offset: number): DataView {
    const { bytes } = this.#control
    return new DataView(bytes.buffer, bytes.byteOffset + offset)
  }
}
