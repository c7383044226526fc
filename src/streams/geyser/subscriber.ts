// One Subscribe stream: its requests, filters and send queue.
// A slow reader delays no other stream: its queue is bounded, and overflow ends the stream.
//
//   request -> charge size, ping, filters -> fan-out (live) or replayer (from_slot)
//   runs -> queue (at most 16 MiB) -> http2 (at most 256 KiB of it)
import { assert } from '../../base/assert.ts'
import { BackWriter } from '../../base/back-writer.ts'
import { Bucket } from '../../base/bucket.ts'
import type { Clock } from '../../base/clock.ts'
import { ProtoReader, WIRE_BYTES } from '../../base/proto-reader.ts'
import type { GrpcEncoding } from '../../base/transport/grpc-encoding.ts'
import { type GrpcStatus, grpcCode } from '../../base/transport/grpc-status.ts'
import type { GrpcStream, StreamEvents } from '../../base/transport/grpc-stream.ts'
import type { SolanaUpdate } from '../../chain/solana/updates.ts'
import type { Hub, KeptStream } from '../hub/hub.ts'
import { type Codec, given, type Long64, numberOf, type SubscribeRequest } from './codec.ts'
import type { FanOut } from './fan-out.ts'
import { compileFilters, countKeys, type FilterLimits } from './filter-compile.ts'
import { type FilterSet, withRetractions } from './filter-set.ts'
import { frameOf, type Run, updateTag } from './frame.ts'
import type { EndReason, GrpcMeters } from './meters.ts'
import { Replayer, type ReplayingStream } from './replayer.ts'
import type { SubscriberGroup } from './subscriber-group.ts'

/** Unsent bytes in http2; the rest stays in our queue, which a status can overtake. */
const handedBytesMax = 256 * 1024
const keysPerCredit = 1_000
/** Request size, charged before decoding; a list of 1,000 keys is some 46 kB. */
const bytesPerCredit = 64 * 1024
/** A ping needs a few bytes; other fields of its request are ignored. */
const pingBytesMax = 4 * 1024
/** Free pings of one stream; beyond them one credit pays for `pingsPerCredit`. */
const freePings = { perSecond: 1, burst: 10 }
const pingsPerCredit = 10
/** Metadata of a call that asks for retractions. */
const retractionsHeader = 'x-retractions'
/** Sent runs are removed from the front of the queue this many at a time. */
const queueCut = 256

export interface SubscriberDeps {
  readonly hub: Hub<SolanaUpdate>
  /** Null where only memory is replayed. */
  readonly streamLog: KeptStream<SolanaUpdate> | null
  readonly fanOut: FanOut
  readonly codec: Codec
  readonly limits: FilterLimits
  readonly backlogBytesMax: number
  readonly clock: Clock
  readonly meters: GrpcMeters
  /** Counts sent bytes and updates against the caller's budget. */
  meter(bytes: number, updates: number): void
  /** Charges credits for a request; a status when too few are left. */
  charge(credits: number): GrpcStatus | null
  ended(): void
}

export class Subscriber implements StreamEvents, ReplayingStream {
  readonly encoding: GrpcEncoding | null
  readonly #stream: GrpcStream
  readonly #deps: SubscriberDeps
  #queue: Run[] = []
  #head = 0
  #queuedBytes = 0
  #group: SubscriberGroup | null = null
  #replayer: Replayer | null = null
  #filters: FilterSet | null = null
  readonly #freePings = new Bucket(freePings)
  #chargedPings = 0
  #hasRequested = false
  #isOver = false

  constructor(stream: GrpcStream, deps: SubscriberDeps) {
    this.encoding = stream.encoding
    this.#stream = stream
    this.#deps = deps
  }

  get backlogBytes(): number {
    return this.#queuedBytes + this.#stream.unsentBytes
  }

  message(bytes: Buffer): void {
    if (this.#isOver) return
    const sizeCredits = Math.floor(bytes.length / bytesPerCredit)
    if (!this.#pay(sizeCredits)) return
    const ping = pingIn(bytes)
    if (ping === null) this.#onRequest(bytes, sizeCredits)
    else if (bytes.length > pingBytesMax) this.#refuse(`a ping takes at most ${pingBytesMax} bytes`)
    else this.#answerPing(ping)
  }

  /** A client that sends no more requests still receives. */
  halfClosed(): void {}

  drained(): void {
    this.#pump()
    this.#replayer?.drained()
  }

  closed(): void {
    this.#finish('client')
  }

  take(runs: readonly Run[], bytes: number, frames: number): void {
    if (this.#isOver) return
    this.#deps.meter(bytes, frames)
    this.#deps.meters.sentBytes.inc(bytes)
    for (const run of runs) this.#queue.push(run)
    this.#queuedBytes += bytes
    this.#pump()
    if (this.#queuedBytes <= this.#deps.backlogBytesMax) return
    this.end('lagged', {
      code: grpcCode.dataLoss,
      details: `lagged: ${this.backlogBytes} bytes were waiting, the stream reads too slowly`,
    })
  }

  ping(): void {
    this.#send(frameOf(updateTag.ping, Buffer.alloc(0), this.#deps.clock.nowMs()))
  }

  caughtUp(): void {
    // The last frames of the replay may have been too many.
    if (this.#isOver) return
    assert(this.#group === null, 'a stream is in one group')
    this.#replayer = null
    this.#group = this.#deps.fanOut.join(this, this.#filters!)
  }

  lostReplay(): void {
    this.end('lagged', {
      code: grpcCode.dataLoss,
      details: 'lagged: the replayed slots left the replay window before they were read',
    })
  }

  /** Ends the stream with a status; queued frames are dropped so that the status arrives. */
  end(reason: EndReason, status: GrpcStatus): void {
    if (this.#isOver) return
    this.#finish(reason)
    this.#stream.end(status)
  }

  #answerPing(bytes: Uint8Array): void {
    const { codec, clock } = this.#deps
    const nowMs = clock.monotonicMs()
    if (this.#freePings.waitMs(1, nowMs) === 0) this.#freePings.take(1, nowMs)
    else if (this.#chargedPings++ % pingsPerCredit === 0 && !this.#pay(1)) return
    const ping = codec.decode<{ id: number }>('geyser.SubscribeRequestPing', bytes)
    if (ping === null) this.#refuse(noRequest)
    else this.#send(pongFrame(ping.id, clock.nowMs()))
  }

  #onRequest(bytes: Buffer, sizeCredits: number): void {
    const request = this.#deps.codec.decode<SubscribeRequest>('geyser.SubscribeRequest', bytes)
    if (request === null || request.ping) {
      this.#refuse(noRequest)
      return
    }
    // Opening the stream paid for the first request; long lists of keys cost extra, as compiling
    // them blocks the main thread.
    const keyCredits = Math.floor(countKeys(request) / keysPerCredit)
    const credits = (this.#hasRequested ? 1 : 0) + Math.max(0, keyCredits - sizeCredits)
    this.#hasRequested = true
    if (!this.#pay(credits)) return
    const compiled = compileFilters(request, this.#deps.limits)
    if (!compiled.ok) {
      this.#refuse(compiled.refusal.message)
      return
    }
    const isRetracting = this.#stream.header(retractionsHeader) === 'true'
    const filters = isRetracting ? withRetractions(compiled.value) : compiled.value
    this.#follow(filters, given(request, 'fromSlot'))
  }

  #follow(filters: FilterSet, from: Long64 | undefined): void {
    const { hub, streamLog, fanOut } = this.#deps
    const { oldestSlot } = streamLog ?? hub
    const fromSlot = from === undefined ? null : (numberOf(from) ?? Number.MAX_SAFE_INTEGER)
    const replay = fromSlot === null ? null : this.#replayOf(filters, fromSlot)
    if (fromSlot !== null && replay === null && oldestSlot !== null) {
      const details = `from_slot ${fromSlot} is not available, the oldest slot is ${oldestSlot}`
      this.end('out-of-range', { code: grpcCode.outOfRange, details })
      return
    }
    this.#leave()
    // The frames that were batched for it may have been too many.
    if (this.#isOver) return
    this.#filters = filters
    if (replay === null) this.#group = fanOut.join(this, filters)
    else this.#replayer = new Replayer(replay, filters, fanOut.pool, this)
  }

  #replayOf({ commitment, blocks }: FilterSet, fromSlot: number) {
    const { hub, streamLog } = this.#deps
    if (streamLog === null) return hub.replay(commitment, fromSlot)
    return streamLog.replay({ commitment, fromSlot, wantsBlocks: blocks.length > 0 })
  }

  /** Ends the stream and returns false when the budget is exhausted. */
  #pay(credits: number): boolean {
    const refusal = credits === 0 ? null : this.#deps.charge(credits)
    if (refusal !== null) this.end('quota', refusal)
    return refusal === null
  }

  #refuse(details: string): void {
    this.end('invalid', { code: grpcCode.invalidArgument, details })
  }

  #leave(): void {
    this.#replayer?.stop()
    this.#replayer = null
    const group = this.#group
    // Before it leaves: its last frames may end the stream, which leaves again.
    this.#group = null
    if (group !== null) this.#deps.fanOut.leave(this, group)
  }

  #send(frame: Buffer): void {
    this.take([{ bytes: frame, slab: null }], frame.length, 1)
  }

  #pump(): void {
    const queue = this.#queue
    while (this.#head < queue.length && this.#stream.unsentBytes < handedBytesMax) {
      const { bytes, slab } = queue[this.#head++]!
      this.#queuedBytes -= bytes.length
      this.#stream.write(bytes, slab?.release)
    }
    assert(this.#queuedBytes >= 0, 'queued bytes are counted')
    if (this.#head === queue.length) queue.length = 0
    else if (this.#head >= queueCut) queue.splice(0, this.#head)
    else return
    this.#head = 0
  }

  #finish(reason: EndReason): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#queue = []
    this.#head = 0
    this.#queuedBytes = 0
    this.#leave()
    this.#deps.meters.ended[reason].inc()
    this.#deps.ended()
  }
}

const noRequest = 'the message is no SubscribeRequest'

const pongWriter = new BackWriter()

/** SubscribeUpdatePong: id is an int32, negative ones in ten bytes. */
function pongFrame(id: number, nowMs: number): Buffer {
  pongWriter.big(1, BigInt(id))
  return frameOf(updateTag.pong, pongWriter.take(), nowMs)
}

// Finds the ping in a SubscribeRequest without decoding the rest of it.
// Decoding 4 MB of filters that a ping carries, and that are ignored, would block the main thread.

const pingField = 9

/** The bytes of the last `ping` field; null when it is absent or the fields are malformed. */
export function pingIn(request: Uint8Array): Uint8Array | null {
  const reader = new ProtoReader(request)
  let ping: Uint8Array | null = null
  while (reader.next())
    if (reader.field === pingField && reader.wire === WIRE_BYTES) ping = reader.bytes
  return reader.isBroken ? null : ping
}
