// Builds gRPC frames of updates from bytes that are encoded already.
//
//   0 | length u32 | 0a len name … | tag len body | 5a len created_at
//   gRPC prefix      filters matched  encoded once   encoded once per update
//
// Frames of one group follow each other in a slab; a run of them goes to every stream of the group
// as one buffer. A slab is append-only, so published runs never change.
import { assert } from '../../base/errors.ts'
import { BackWriter, varintBytes, writeVarint } from '../../base/protobuf.ts'
import type { GrpcEncoding } from '../../base/transport/grpc-encoding.ts'
import { compressFrames, framePrefixBytes } from '../../base/transport/grpc-stream.ts'
import type { FilterSet, NamedFilter } from './filter-set.ts'

/** Tags of SubscribeUpdate's update_oneof. */
export const updateTag = {
  account: 0x12,
  slot: 0x1a,
  transaction: 0x22,
  block: 0x2a,
  ping: 0x32,
  blockMeta: 0x3a,
  entry: 0x42,
  pong: 0x4a,
  transactionStatus: 0x52,
  retraction: 1001 * 8 + 2,
  keys: 1010 * 8 + 2,
  behind: 1011 * 8 + 2,
} as const

const createdAtField = 11
/** A larger body is not copied: it is sent as a buffer of its own, shared by all groups. */
const copyBytesInitial = 32 * 1024
const loopBytesMax = 24
const none = Buffer.alloc(0)

export class FrameBatch {
  readonly #pool: SlabPool
  readonly #copyBytesMax: number
  #slab: Slab | null = null
  /** Start of the unpublished run, and offset of the next frame. */
  #start = 0
  #at = 0
  #slabSinceMs = 0
  #runs: Run[] = []
  /** Whole frames that follow what is in the slab: copied only when something else follows them. */
  #shared: Buffer[] = []
  /** Bytes and frames since the last `take`. */
  bytes = 0
  frames = 0

  constructor(pool: SlabPool, copyBytesMax = copyBytesInitial) {
    this.#pool = pool
    this.#copyBytesMax = copyBytesMax
  }

  append(tag: number, prefix: Buffer, body: Uint8Array, suffix: Buffer): void {
    this.#copyShared()
    const isShared = body.length > this.#copyBytesMax
    const lengthBytes = varintBytes(body.length)
    const headBytes = framePrefixBytes + prefix.length + varintBytes(tag) + lengthBytes
    const payloadBytes = headBytes - framePrefixBytes + body.length + suffix.length
    const slab = this.#reserve(headBytes + suffix.length + (isShared ? 0 : body.length))
    let at = this.#at
    slab[at] = 0
    slab[at + 1] = payloadBytes >>> 24
    slab[at + 2] = payloadBytes >>> 16
    slab[at + 3] = payloadBytes >>> 8
    slab[at + 4] = payloadBytes
    at = copyInto(slab, prefix, at + framePrefixBytes)
    at = writeVarint(slab, writeVarint(slab, at, tag), body.length)
    if (isShared) {
      this.#at = at
      this.#close(true)
      const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
      this.#runs.push({ bytes, slab: null, isPart: true })
      at = this.#at
    } else at = copyInto(slab, body, at)
    this.#at = copyInto(slab, suffix, at)
    // Where a stream that reads slowly may pause.
    if (isShared) this.#close()
    this.bytes += framePrefixBytes + payloadBytes
    this.frames++
  }

  /** A whole frame that others send, too. */
  share(frame: Buffer): void {
    this.#shared.push(frame)
    this.bytes += frame.length
    this.frames++
  }

  #copyShared(): void {
    if (this.#shared.length === 0) return
    for (const frame of this.#shared) {
      const slab = this.#reserve(frame.length)
      this.#at = copyInto(slab, frame, this.#at)
    }
    this.#shared = []
  }

  /** Returns the runs since the last call; the caller must release each slab once. */
  take(): readonly Run[] {
    if (this.#runs.length > 0 || this.#at > this.#start) this.#copyShared()
    this.#close()
    const runs = this.#shared.length > 0 ? joinedRuns(this.#shared) : this.#runs
    this.#shared = []
    this.#runs = []
    this.bytes = 0
    this.frames = 0
    return runs
  }

  #close(isPart = false): void {
    const slab = this.#slab
    if (slab !== null && this.#at > this.#start) {
      slab.retain(1)
      this.#runs.push({ bytes: slab.bytes.subarray(this.#start, this.#at), slab, isPart })
    }
    this.#start = this.#at
  }

  /** Memory with at least `bytes` free at `#at`. */
  #reserve(bytes: number): Buffer {
    const slab = this.#slab
    if (slab !== null && slab.bytes.length - this.#at >= bytes) return slab.bytes
    this.#close()
    const nowMs = performance.now()
    const fresh = this.#pool.take(bytes, slab?.bytes.length ?? 0, nowMs - this.#slabSinceMs)
    this.#slabSinceMs = nowMs
    // The old slab lives until its runs are sent.
    slab?.release()
    this.#slab = fresh
    this.#start = 0
    this.#at = 0
    return fresh.bytes
  }
}

const writer = new BackWriter()

/** A filter's name as field 1 of SubscribeUpdate. */
export function namePrefix(name: string): Buffer {
  writer.stringAlways(1, name)
  return writer.take()
}

// Consecutive updates often have the same time.
let lastCreatedAtMs = Number.NaN
let lastSuffix: Buffer = none

/** created_at, field 11 of SubscribeUpdate. */
export function createdAtSuffix(createdAtMs: number): Buffer {
  if (createdAtMs !== lastCreatedAtMs) {
    lastSuffix = encodeCreatedAt(createdAtMs)
    lastCreatedAtMs = createdAtMs
  }
  return lastSuffix
}

function encodeCreatedAt(createdAtMs: number): Buffer {
  const seconds = Math.floor(createdAtMs / 1000)
  const nanos = Math.min(999_999_999, Math.round((createdAtMs - seconds * 1000) * 1e6))
  writer.number(2, nanos)
  writer.numberAlways(1, seconds)
  writer.wrap(createdAtField, 0)
  return writer.take()
}

// Groups are flushed one after the other, and most of them have the same frames.
let lastJoined: readonly Buffer[] = []
let lastRuns: readonly Run[] = []

function joinedRuns(frames: readonly Buffer[]): readonly Run[] {
  const { length } = frames
  if (length === lastJoined.length && frames.every((one, at) => one === lastJoined[at]))
    return lastRuns
  lastJoined = frames
  lastRuns = [{ bytes: length === 1 ? frames[0]! : Buffer.concat(frames), slab: null }]
  return lastRuns
}

/** One whole frame, by itself. */
export function frameOf(tag: number, body: Uint8Array, createdAtMs: number, prefix: Buffer = none) {
  const batch = new FrameBatch(new SlabPool())
  batch.append(tag, prefix, body, createdAtSuffix(createdAtMs))
  return Buffer.concat(batch.take().map((run) => run.bytes))
}

function copyInto(target: Buffer, source: Uint8Array, at: number): number {
  const { length } = source
  // Below this a loop is quicker than the call.
  if (length > loopBytesMax) target.set(source, at)
  else for (let index = 0; index < length; index++) target[at + index] = source[index]!
  return at + length
}

// A pool of reference-counted buffers for frames.
// A busy endpoint writes hundreds of megabytes a second; garbage collecting them would take a core.
//
//   slab: [ run | run | run being written | free ]     uses = 1 for the writer
//                                                      + 1 per unpublished run
//                                                      + 1 per run and stream
//
// A stream that ends with runs in its queue never releases them: the buffer then goes to the
// garbage collector. Each time a buffer leaves the pool it gets a `Slab` of its own, so a late or
// second release cannot touch the count of the next writer: it throws, and the process stops.

/** Several runs long, so that few runs are split at its end. */
export const slabBytesMax = 256 * 1024
const slabBytesMin = 4 * 1024
/** A slab that is full earlier is followed by one of twice its size, one that lasts by half. */
const fullEarlyMs = 1_000
/** Buffers in the pool: 16 MiB. */
const pooledMax = 64

export class SlabPool {
  readonly #free: Buffer[] = []

  /** A slab of at least `wanted` bytes, retained once for the writer. */
  take(wanted: number, lastBytes: number, lastedMs = 0): Slab {
    // By its rate a quiet group stays small, however old it is, and a busy one takes large runs.
    const next = lastedMs < fullEarlyMs ? lastBytes * 2 : lastBytes >> 1
    const size = Math.max(wanted, Math.min(slabBytesMax, Math.max(slabBytesMin, next)))
    if (size !== slabBytesMax) return new Slab(Buffer.allocUnsafeSlow(size), null)
    const bytes = this.#free.pop() ?? Buffer.allocUnsafeSlow(size)
    assert(bytes.length === slabBytesMax, 'pooled buffers have one size')
    return new Slab(bytes, this.#free)
  }
}

class Slab {
  readonly bytes: Buffer
  readonly #pool: Buffer[] | null
  #uses = 1

  constructor(bytes: Buffer, pool: Buffer[] | null) {
    this.bytes = bytes
    this.#pool = pool
  }

  retain(uses: number): void {
    assert(uses > 0 && this.#uses > 0, 'a slab was retained after its last release')
    this.#uses += uses
  }

  /** A bound function, so that no closure is allocated per callback. */
  readonly release = (): void => {
    assert(this.#uses > 0, 'a slab was released more often than retained')
    if (--this.#uses > 0 || this.#pool === null) return
    if (this.#pool.length < pooledMax) this.#pool.push(this.bytes)
  }
}

/** Whole frames, one after the other, or parts of one in runs that follow each other. */
export interface Run {
  readonly bytes: Buffer
  /** Released once per stream that has sent the run; null for memory outside the pool. */
  readonly slab: Slab | null
  /** Its last frame goes on in the next run. */
  readonly isPart?: boolean
  /** A frame of one stream alone, which answers its client. */
  readonly isAnswer?: true
}

// A group of streams with equal filters: each update is matched and framed once for all of them.

/** Batched bytes that are flushed before the end of the turn. */
const flushBytes = 64 * 1024

/** Receives runs, which together are whole frames. */
export interface RunSink {
  /** The compression of the runs it takes; null for none. */
  readonly encoding: GrpcEncoding | null
  /** Must release the slab of each run once it is sent. */
  take(runs: readonly Run[], bytes: number, frames: number): void
}

/** A filter in its group. `stamp` deduplicates one that the index names twice. */
export interface Entry<F> {
  readonly filter: F
  readonly group: SubscriberGroup
  stamp: number
}

export class SubscriberGroup {
  /** Replaced by an equal set when the group becomes that of one stream. */
  filters: FilterSet
  readonly sinks = new Set<RunSink>()
  readonly #batch: FrameBatch
  readonly #wantsFlush: (group: SubscriberGroup) => void
  /** Scratch of the matcher: which update matched last, and by which filters. */
  stamp = 0
  hit: NamedFilter | null = null
  moreHits: NamedFilter[] | null = null

  /**
   * `wantsFlush` is called with the first frame after a flush; a body of more than `copyBytesMax`
   * is sent as it is, and must not change.
   */
  constructor(
    filters: FilterSet,
    pool: SlabPool,
    wantsFlush: (group: SubscriberGroup) => void,
    copyBytesMax?: number,
  ) {
    this.filters = filters
    this.#batch = new FrameBatch(pool, copyBytesMax)
    this.#wantsFlush = wantsFlush
  }

  append(tag: number, prefix: Buffer, body: Uint8Array, suffix: Buffer): void {
    const batch = this.#batch
    if (batch.frames === 0) this.#wantsFlush(this)
    batch.append(tag, prefix, body, suffix)
    if (batch.bytes >= flushBytes) this.flush()
  }

  /** A frame that other groups get, too: nothing is encoded, and usually nothing copied. */
  share(frame: Buffer): void {
    if (this.#batch.frames === 0) this.#wantsFlush(this)
    this.#batch.share(frame)
    if (this.#batch.bytes >= flushBytes) this.flush()
  }

  /** Sends all batched frames to the current streams of the group, compressed to those that ask. */
  flush(): void {
    const { bytes, frames } = this.#batch
    if (frames === 0) return
    const runs = this.#batch.take()
    const compressed = new Map<GrpcEncoding, Run>()
    for (const sink of this.sinks) {
      const { encoding } = sink
      if (encoding === null) {
        for (const run of runs) run.slab?.retain(1)
        sink.take(runs, bytes, frames)
        continue
      }
      // Once for all streams that ask for it.
      const run = compressed.get(encoding) ?? { bytes: compressFrames(runs, encoding), slab: null }
      compressed.set(encoding, run)
      sink.take([run], run.bytes.length, frames)
    }
    for (const run of runs) run.slab?.release()
  }
}
