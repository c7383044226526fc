// Routes the events of a source into the event ring and the control ring. Thread: source.
//
//   transaction-level events -> event ring     see RecordWriter
//   block-level events       -> control ring   with the positions of the block's records
//   logs, calls, outputs     -> dropped: they have no reader; their seqnos are counted
//
// A block that was not seen whole is never analysed: its BlockEnd carries no range.
import { chunks } from '../../base/rings/layout.ts'
import { RingWriter } from '../../base/rings/ring.ts'
import {
  accountAccess,
  EventType,
  eventTypeMax,
  storageAccess,
} from '../../chain/evm/event-payload.ts'
import { descriptor as layout } from '../../chain/evm/event-ring.ts'
import { differenceU64, readU16, readU64, readU64Exact } from '../../chain/evm/words.ts'
import { SyncTable } from './block-jobs.ts'
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

interface FeedOptions {
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
    if (this.#syncTable.seqno() !== 0) this.#send(controlTag.resumed)
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
    if (this.#options.isStopping() || !this.#send(controlTag.ended)) return
    this.flush()
    this.#publish()
  }

  #send(tag: number): boolean {
    if (!this.#waitForFit(this.#control, 0)) return false
    this.#control.reserve(tag, 0)
    this.#control.commit()
    return true
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
    if (!this.#waitForFit(this.#control, gapBytes)) return
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
    if (length > this.#control.pieceBytesMax || !this.#waitForFit(this.#control, length)) return
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

// Defines the messages of the control ring: block-level events, gaps, the end.
// They go from the source thread to the main thread, which sees nothing else of the source, so its
// work does not grow with the number of transactions.
//
//   tag 1, event   0 read at f64 (main's monotonic ms)   8 from f64   16 to f64 (event ring)
//                 24 first seqno f64   32 transactions f64   40 wall time f64 (ns)   48 status f64
//                 56 0   64 descriptor[64]   128 payload
//   tag 2, gap     0 read at f64   8 from f64   16 to f64
//   tag 3, ended   (empty)
//   tag 4, resumed (empty): from another thread now, which may have missed events

const controlTag = { event: 1, gap: 2, ended: 3, resumed: 4 } as const
const eventHeadBytes = 64
const gapBytes = 24

/** State of a block's records; sent with its BlockEnd. */
export const rangeStatus = {
  /** Not a BlockEnd, or one whose block was not seen from its start. */
  none: 0,
  /** All its records are from `from` to `to`. */
  whole: 1,
  /** It did not fit the event ring. */
  tooLarge: 2,
} as const

export interface ControlEvent {
  readonly kind: 'event'
  readonly readAtMs: number
  readonly type: number
  readonly seqno: number
  readonly timeNs: bigint
  /** Seqno of the BlockStart of the block it belongs to; 0 = none. */
  readonly blockSeqno: number
  readonly payload: Uint8Array
  /** Only with BlockEnd: its block's records in the event ring, and their counts. */
  readonly status: number
  readonly from: number
  readonly to: number
  readonly firstSeqno: number
  readonly txnCount: number
  readonly wallNs: number
}

interface ControlGap {
  readonly kind: 'gap'
  readonly readAtMs: number
  readonly from: number
  readonly to: number
}

export type Control =
  | ControlEvent
  | ControlGap
  | { readonly kind: 'ended' }
  | { readonly kind: 'resumed' }

/** Parses one message; `bytes` must be a private copy. Null for malformed bytes. */
export function parseControl(tag: number, bytes: Uint8Array): Control | null {
  if (tag === controlTag.ended) return { kind: 'ended' }
  if (tag === controlTag.resumed) return { kind: 'resumed' }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  if (tag === controlTag.gap && bytes.length === gapBytes)
    return { kind: 'gap', readAtMs: at(view, 0), from: at(view, 8), to: at(view, 16) }
  if (tag !== controlTag.event || bytes.length < eventHeadBytes + layout.bytes) return null
  const head = bytes.subarray(eventHeadBytes)
  return {
    kind: 'event',
    readAtMs: at(view, 0),
    from: at(view, 8),
    to: at(view, 16),
    firstSeqno: at(view, 24),
    txnCount: at(view, 32),
    wallNs: at(view, 40),
    status: at(view, 48),
    type: readU16(head, layout.type),
    seqno: readU64(head, layout.seqno),
    timeNs: readU64Exact(head, layout.timeNs),
    blockSeqno: readU64(head, layout.blockSeqno),
    payload: head.subarray(layout.bytes),
  }
}

function at(view: DataView, offset: number): number {
  return view.getFloat64(offset, true)
}

// Writes transaction-level events as records of the event ring. Thread: source.
// Only what the analysis reads (wasm/scan.ts) is copied: a third of a block's bytes.
//
//   record   0 transaction + 1 u32   4 0 u32   8 time u64   16 payload; of accesses up to the key

const headBytes = 16
/** Of accesses only the payload up to the key is copied, in whole words; 0 means all of it. */
const copiedBytes = new Uint8Array(eventTypeMax + 1)
copiedBytes[EventType.AccountAccess] = accountAccess.address + 20
copiedBytes[EventType.StorageAccess] = storageAccess.key + 33
const accessBytes = new Uint8Array(eventTypeMax + 1)
accessBytes[EventType.AccountAccess] = accountAccess.size
accessBytes[EventType.StorageAccess] = storageAccess.size
/** Up to this length a copy word by word is faster than `set`. */
const wordCopyBytesMax = 256

/** Length of the record of an event with a payload of that size. */
function recordBytes(type: number, payloadBytes: number): number {
  const copied = copiedBytes[type]!
  if (copied === 0) return headBytes + payloadBytes
  // Too short an access is left empty: the analysis reports it as malformed.
  return headBytes + (payloadBytes < accessBytes[type]! ? 0 : copied)
}

class RecordWriter {
  readonly #ring: RingWriter
  /** The last payload's array, where it begins in its buffer, and that buffer's words. */
  #lastPayload: Uint8Array | null = null
  #payloadAt = 0
  #payloadWords: Uint32Array = new Uint32Array(0)
  #long = new Uint8Array(0)

  constructor(ring: RingWriter) {
    this.#ring = ring
  }

  /** `words` is the descriptor, the payload begins at `from`, `length` is of `recordBytes`. */
  write(type: number, words: Uint32Array, payload: Uint8Array, from: number, length: number): void {
    const ring = this.#ring
    const size = length - headBytes
    if (length > ring.pieceBytesMax) {
      ring.write(type, this.#joined(words, payload.subarray(from, from + size)))
      return
    }
    const offset = ring.reserve(type, length)
    const { data } = ring
    const at = offset >> 2
    data[at] = words[layout.txn / 4]!
    data[at + 1] = 0
    data[at + 2] = words[layout.timeNs / 4]!
    data[at + 3] = words[layout.timeNs / 4 + 1]!
    if (size > 0 && !this.#copyWords(payload, from, size, at + headBytes / 4))
      ring.bytes.set(payload.subarray(from, from + size), offset + headBytes)
    ring.commit()
  }

  /**
   * Copies a short payload word by word, because for so few bytes `set` costs more than the copy
   * itself; false when it is long or not aligned. Up to 3 bytes too much: the record has space.
   */
  #copyWords(payload: Uint8Array, from: number, size: number, to: number): boolean {
    if (size > wordCopyBytesMax) return false
    if (payload !== this.#lastPayload) this.#readPayload(payload)
    const words = this.#payloadWords
    const start = this.#payloadAt + from
    const end = (start + size + 3) >>> 2
    if (start % 4 !== 0 || end > words.length) return false
    const { data } = this.#ring
    for (let word = start >>> 2, at = to; word < end; word++, at++) data[at] = words[word]!
    return true
  }

  /** Sources pass parts of one buffer, by one array or several. */
  #readPayload(payload: Uint8Array): void {
    this.#lastPayload = payload
    this.#payloadAt = payload.byteOffset
    const { buffer } = payload
    if (buffer === this.#payloadWords.buffer) return
    this.#payloadWords = new Uint32Array(buffer, 0, buffer.byteLength >>> 2)
  }

  /** Long payloads are rare: head and payload are joined before the ring splits them. */
  #joined(words: Uint32Array, payload: Uint8Array): Uint8Array {
    const length = headBytes + payload.length
    if (this.#long.length < length) this.#long = new Uint8Array(length * 2)
    const head = new Uint32Array(this.#long.buffer, 0, headBytes / 4)
    head[0] = words[layout.txn / 4]!
    head.set(words.subarray(layout.timeNs / 4, layout.timeNs / 4 + 2), 2)
    this.#long.set(payload, headBytes)
    return this.#long.subarray(0, length)
  }
}
