// The event log: numbers every frame, keeps the recent ones for resume, notifies listeners.
// Guarantees: seq grows by one within a process run, is unique over the life of a data folder,
// and a cursor of an earlier run never lies inside [oldest - 1, newest] of this one.
// Where gateways share one log, it numbers the frames: they arrive by `accept`, and the run is that
// of the shared log, so that a cursor is valid at every gateway.
//
//   slots   [ f8 | f9 | f4 | f5 | f6 | f7 ]      slot of a frame = seq mod framesMax
//                       ^ oldest = 4, newest = 9
//   slabs   frames are stored back to back in 1 MiB slabs; a slab is freed with its last frame
import type { Clock } from '../../base/clock.ts'
import { assert, Fault } from '../../base/errors.ts'
import { FrameSlabs } from '../../base/frame-slabs.ts'
import type { FrameFacts } from '../../base/shared-log.ts'
import {
  controlFrame,
  type Encoding,
  envelope,
  type FrameKind,
  frameKinds,
  jsonToMsgpack,
  type LogKind,
  type StoredFrame,
} from './encoded.ts'

/** Resume buffer: whichever limit is reached first. */
export const resumeFramesMax = 100_000
export const resumeBytesMax = 256 * 1024 * 1024

/** Sequence numbers are reserved in blocks, so that the registry is written once per block. */
export const seqBlock = 65_536
/** The next block is reserved this early: it leaves an hour to fix a full disk. */
const seqAhead = seqBlock / 2
const reserveRetryMs = 1000

/** Memory of a stored frame besides its bytes: the object, two views, its facts, its slot. */
const frameOverheadBytes = 448

export interface EventLogOptions {
  /**
   * Reserves `count` sequence numbers durably and returns the first; calls return adjacent blocks.
   * Null when that is not possible now: it is retried later.
   */
  readonly reserve: (count: number) => number | null
  readonly clock: Clock
  /** True where a shared log numbers the frames; none is reserved then. */
  readonly isShared?: boolean
  readonly framesMax?: number
  readonly bytesMax?: number
}

/** A frame without its number. */
export interface NewFrame {
  readonly kind: LogKind
  /** UTF-8 JSON without envelope; it is copied. */
  readonly payload: Uint8Array
  /** Monotonic time at which the source event was read. */
  readonly sinceMs: number
  readonly facts: FrameFacts | null
}

export type FrameListener = (frame: StoredFrame) => void

export class EventLog {
  readonly #reserve: (count: number) => number | null
  readonly #clock: Clock
  readonly #framesMax: number
  readonly #bytesMax: number
  readonly #slots: (StoredFrame | undefined)[]
  readonly #msgpack: (Buffer | undefined)[]
  readonly #latest = new Map<LogKind, StoredFrame>()
  readonly #appended = new Map<LogKind, number>(frameKinds.map((kind) => [kind, 0]))
  readonly #listeners = new Set<FrameListener>()
  readonly #restartListeners = new Set<(last: number) => void>()
  readonly #isShared: boolean
  /**
   * Resolves when all that other gateways have by now is here; rejects when it cannot be read. Set
   * by who reads the shared log.
   */
  pull: () => Promise<void> = async () => {}
  /** Until the older frames of the shared log are here, too, or do not come now; null then. */
  filling: Promise<void> | null = null
  #endWaits: () => void = () => {}
  readonly #slabs = new FrameSlabs()
  #nextSeq: number
  #reservedEnd: number
  #reserveFromMs = 0
  #oldest = 0
  #newest = 0
  #bytes = 0
  #run: string | null = null

  constructor(options: EventLogOptions) {
    this.#reserve = options.reserve
    this.#clock = options.clock
    this.#framesMax = options.framesMax ?? resumeFramesMax
    this.#bytesMax = options.bytesMax ?? resumeBytesMax
    assert(this.#framesMax > 0 && this.#bytesMax > 0, 'a resume buffer has a size')
    this.#slots = new Array(this.#framesMax)
    this.#msgpack = new Array(this.#framesMax)
    this.#isShared = options.isShared === true
    this.#nextSeq = 1
    this.#reservedEnd = 1
    if (this.#isShared) return
    const first = options.reserve(seqBlock)
    if (first === null) throw new Fault('seq', 'no event numbers can be reserved in the registry')
    assert(Number.isSafeInteger(first) && first >= 0, 'sequence numbers are safe integers')
    this.#reservedEnd = first + seqBlock
    // The first number of a run stays unused: the last cursor of the previous run may be one less,
    // and `oldest - 1 = cursor` would accept it as a cursor of this run.
    this.#nextSeq = first + 1
  }

  /** The run of the shared log; null where this process numbers its frames itself. */
  get run(): string | null {
    return this.#run
  }

  /** 0 when the buffer is empty. */
  get oldestSeq(): number {
    return this.#oldest
  }

  /** 0 when the buffer is empty. */
  get newestSeq(): number {
    return this.#newest
  }

  /** One less than the next frame's seq: the newest seq, or a number that no frame ever has. */
  get position(): number {
    return this.#nextSeq - 1
  }

  get frames(): number {
    return this.#newest === 0 ? 0 : this.#newest - this.#oldest + 1
  }

  /** Bytes of the buffer: both encodings and the overhead per frame. */
  get bytes(): number {
    return this.#bytes
  }

  /** How many frames of a kind were appended in this run. */
  appended(kind: LogKind): number {
    return this.#appended.get(kind) ?? 0
  }

  /**
   * Stores a frame and notifies the listeners, in order, before it returns its seq. Returns 0, and
   * the frame is dropped, while all reserved numbers are used and no more can be had: a number that
   * was not reserved could be given again after a restart.
   * `payload` is the UTF-8 JSON of the payload without envelope; it is copied.
   * `sinceMs` is the monotonic time at which the source event was read (default: now).
   */
  append(
    kind: FrameKind,
    payload: Uint8Array,
    sinceMs = this.#clock.monotonicMs(),
    facts: FrameFacts | null = null,
  ): number {
    if (this.#reservedEnd - this.#nextSeq <= seqAhead) this.#reserveMore()
    if (this.#nextSeq === this.#reservedEnd) return 0
    return this.#add(this.#nextSeq++, { kind, payload, sinceMs, facts })
  }

  /** Stores the next frame of the shared log and notifies the listeners. */
  accept(seq: number, frame: NewFrame): void {
    assert(this.#isShared && seq === this.#nextSeq, 'shared frames follow each other')
    this.#nextSeq = seq + 1
    this.#add(seq, frame)
  }

  /** The shared log has another run, or its next frame does not follow: the buffer starts anew. */
  restart(run: string, position: number): void {
    const last = this.position
    while (this.frames > 0) this.#evictOldest()
    assert(this.#bytes === 0, 'an empty buffer has no bytes')
    this.#oldest = 0
    this.#newest = 0
    this.#latest.clear()
    this.#run = run
    this.#nextSeq = position + 1
    for (const listener of this.#restartListeners) listener(last)
  }

  /** Calls `listener` after each `restart` with the position before. Returns its unsubscribe. */
  onRestart(listener: (last: number) => void): () => void {
    this.#restartListeners.add(listener)
    return () => this.#restartListeners.delete(listener)
  }

  /** True where another gateway may have sent this cursor: its frame may come soon. */
  mayReach(cursor: number, run: string | null): boolean {
    // Before the first read of the shared log every run may be its own.
    const isOfThisRun = this.#run === null || (run ?? this.#run) === this.#run
    const isMissing = cursor > this.#newest || (this.filling !== null && cursor < this.#oldest - 1)
    return this.#isShared && isMissing && isOfThisRun
  }

  /** Stores the frame before the oldest, of which no listener is told; false where it cannot. */
  prepend(seq: number, { kind, payload, sinceMs, facts }: NewFrame): boolean {
    const hasRoom = this.frames < this.#framesMax && this.#bytes < this.#bytesMax
    if (!hasRoom || this.#newest === 0 || seq !== this.#oldest - 1) return false
    const frame: StoredFrame = { seq, kind, sinceMs, facts, ...this.#store(seq, kind, payload) }
    this.#slots[seq % this.#framesMax] = frame
    this.#oldest = seq
    this.#bytes += frame.json.length + frameOverheadBytes
    if (this.latest(kind) === null) this.#latest.set(kind, frame)
    return true
  }

  /** Ends the waits for older frames. Where they are not here yet, who comes later waits anew. */
  setFilling(isFilling: boolean): void {
    this.#endWaits()
    this.filling = isFilling ? new Promise((resolve) => (this.#endWaits = resolve)) : null
  }

  #add(seq: number, { kind, payload, sinceMs, facts }: NewFrame): number {
    assert(this.#newest === 0 || seq === this.#newest + 1, 'seq grows by one within a run')
    const frame: StoredFrame = { seq, kind, sinceMs, facts, ...this.#store(seq, kind, payload) }
    if (this.frames === this.#framesMax) this.#evictOldest()
    this.#slots[seq % this.#framesMax] = frame
    if (this.#oldest === 0) this.#oldest = seq
    this.#newest = seq
    this.#bytes += frame.json.length + frameOverheadBytes
    this.#evictOver()
    this.#latest.set(kind, frame)
    this.#appended.set(kind, this.appended(kind) + 1)
    for (const listener of this.#listeners) listener(frame)
    return seq
  }

  /** The newest frame of a kind, kept even after the buffer has evicted it. */
  latest(kind: LogKind): StoredFrame | null {
    return this.#latest.get(kind) ?? null
  }

  /** The frame of a seq; null when it is not (or no longer) in the buffer. */
  at(seq: number): StoredFrame | null {
    if (this.#newest === 0 || seq < this.#oldest || seq > this.#newest) return null
    return this.#slots[seq % this.#framesMax] ?? null
  }

  /** True when the buffer still has every frame after the cursor. */
  canResume(cursor: number): boolean {
    return this.#newest !== 0 && cursor >= this.#oldest - 1 && cursor <= this.#newest
  }

  /** Every stored frame after a cursor, ascending; frames appended meanwhile are included. */
  *after(cursor: number): Generator<StoredFrame> {
    for (let seq = Math.max(cursor + 1, this.#oldest); seq <= this.#newest; seq++) {
      const frame = this.at(seq)
      if (frame !== null) yield frame
    }
  }

  /** The frame's bytes in an encoding; encoded at most once while the frame is in the buffer. */
  encoded(frame: StoredFrame, encoding: Encoding): Buffer {
    if (encoding === 'json') return frame.json
    const slot = frame.seq % this.#framesMax
    if (this.#slots[slot] !== frame) return this.#packed(frame)
    const known = this.#msgpack[slot]
    if (known !== undefined) return known
    const made = this.#packed(frame)
    this.#msgpack[slot] = made
    this.#bytes += made.length
    this.#evictOver()
    return made
  }

  /** A row of the shared log may have beside its fields what msgpack cannot: it is a Gap there. */
  #packed(frame: StoredFrame): Buffer {
    try {
      return jsonToMsgpack(frame.json)
    } catch (error) {
      if (!this.#isShared) throw error
      return controlFrame('Gap', { from: 0, to: 0 }, 'msgpack', frame.seq)
    }
  }

  /** Calls `listener` with every frame from now on, inside `append`. Returns its unsubscribe. */
  listen(listener: FrameListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #reserveMore(): void {
    const nowMs = this.#clock.monotonicMs()
    if (nowMs < this.#reserveFromMs) return
    const first = this.#reserve(seqBlock)
    if (first === null) this.#reserveFromMs = nowMs + reserveRetryMs
    else {
      assert(first === this.#reservedEnd, 'reserved sequence numbers follow each other')
      this.#reservedEnd = first + seqBlock
    }
  }

  #store(seq: number, kind: LogKind, payload: Uint8Array) {
    const head = envelope(seq, kind)
    const length = head.length + payload.length + 1
    const json = this.#slabs.allocate(length)
    json.write(head, 0, 'latin1')
    json.set(payload, head.length)
    json[length - 1] = 0x7d
    return { json, payload: json.subarray(head.length, length - 1) }
  }

  /** The newest frame always stays, even if it alone is over the limit. */
  #evictOver(): void {
    while (this.#bytes > this.#bytesMax && this.#oldest < this.#newest) this.#evictOldest()
  }

  #evictOldest(): void {
    const slot = this.#oldest % this.#framesMax
    const frame = this.#slots[slot]
    assert(frame?.seq === this.#oldest, 'the oldest frame lies in its slot')
    this.#bytes -= frame.json.length + frameOverheadBytes + (this.#msgpack[slot]?.length ?? 0)
    this.#slots[slot] = undefined
    this.#msgpack[slot] = undefined
    this.#oldest++
    assert(this.#bytes >= 0, 'the bytes of the frames are counted')
  }
}
