// Puts updates on the wire: a gRPC frame spliced of bytes that exist already. Thread: main.
//
//   0 | length u32 | 0a len name … | tag len body | 5a len created_at
//   gRPC prefix      filters matched  encoded once   encoded once per update
//
// Frames of one group stand one behind the other in a slab; a finished run of them is handed to
// every stream of the group as one buffer. A slab is only ever appended to, so runs that were
// handed out stay as they are.
import { BackWriter } from '../base/back-writer.ts'
import { varintBytes, writeVarint } from '../base/varint.ts'
import { framePrefixBytes } from '../transport/grpc-stream.ts'
import { type Run, type Slab, SlabPool } from './slab.ts'

/** Tags of SubscribeUpdate's update_oneof; all fit in one byte. */
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
} as const

const createdAtField = 11
/** A body beyond this is not copied: it goes out as a buffer of its own, shared by all groups. */
const copyBytesMax = 32 * 1024
const loopBytesMax = 24
const none = Buffer.alloc(0)

export class FrameBatch {
  readonly #pool: SlabPool
  #slab: Slab | null = null
  /** Where the run that is not handed out yet starts, and where the next frame goes. */
  #start = 0
  #at = 0
  #runs: Run[] = []
  /** Bytes and frames since the last `take`. */
  bytes = 0
  frames = 0

  constructor(pool: SlabPool) {
    this.#pool = pool
  }

  append(tag: number, prefix: Buffer, body: Uint8Array, suffix: Buffer): void {
    const isShared = body.length > copyBytesMax
    const lengthBytes = varintBytes(body.length)
    const headBytes = framePrefixBytes + prefix.length + 1 + lengthBytes
    const payloadBytes = headBytes - framePrefixBytes + body.length + suffix.length
    const slab = this.#room(headBytes + suffix.length + (isShared ? 0 : body.length))
    let at = this.#at
    slab[at] = 0
    slab[at + 1] = payloadBytes >>> 24
    slab[at + 2] = payloadBytes >>> 16
    slab[at + 3] = payloadBytes >>> 8
    slab[at + 4] = payloadBytes
    at = copyInto(slab, prefix, at + framePrefixBytes)
    slab[at++] = tag
    at = writeVarint(slab, at, body.length)
    if (isShared) {
      this.#at = at
      this.#close()
      this.#runs.push({ bytes: asBuffer(body), slab: null })
      at = this.#at
    } else at = copyInto(slab, body, at)
    this.#at = copyInto(slab, suffix, at)
    this.bytes += framePrefixBytes + payloadBytes
    this.frames++
  }

  /** The runs since the last call; their slabs count one use for whoever takes them. */
  take(): readonly Run[] {
    this.#close()
    const runs = this.#runs
    this.#runs = []
    this.bytes = 0
    this.frames = 0
    return runs
  }

  #close(): void {
    const slab = this.#slab
    if (slab !== null && this.#at > this.#start) {
      slab.retain(1)
      this.#runs.push({ bytes: slab.bytes.subarray(this.#start, this.#at), slab })
    }
    this.#start = this.#at
  }

  /** The memory that has room for `bytes` at `#at`. */
  #room(bytes: number): Buffer {
    const slab = this.#slab
    if (slab !== null && slab.bytes.length - this.#at >= bytes) return slab.bytes
    this.#close()
    const fresh = this.#pool.take(bytes, slab?.bytes.length ?? 0)
    // Its runs keep the old one until they are sent.
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

// Updates of one moment come in a row.
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

/** One whole frame, for what goes to a single stream. */
export function frameOf(tag: number, body: Uint8Array, createdAtMs: number): Buffer {
  const batch = new FrameBatch(new SlabPool())
  batch.append(tag, none, body, createdAtSuffix(createdAtMs))
  return Buffer.concat(batch.take().map((run) => run.bytes))
}

function copyInto(target: Buffer, source: Uint8Array, at: number): number {
  const { length } = source
  // Below this a loop is quicker than the call.
  if (length > loopBytesMax) target.set(source, at)
  else for (let index = 0; index < length; index++) target[at + index] = source[index]!
  return at + length
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
