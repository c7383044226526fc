// One Subscribe stream: its requests, its place among the live streams, its unsent bytes.
// Thread: main. Made by server.ts per stream. Only this stream suffers when it reads slowly.
//
//   request -> filters -> fan-out (live) or replayer (the past)
//   runs -> queue (at most 16 MiB) -> http2 (at most 256 KiB of it)
import type { Clock } from '../../base/clock.ts'
import type { SolanaUpdate } from '../../chain/ports.ts'
import type { Hub } from '../../stream/hub.ts'
import { type GrpcStatus, grpcCode } from '../../transport/grpc-status.ts'
import type { GrpcStream, StreamEvents } from '../../transport/grpc-stream.ts'
import { type Codec, given, type Long64, numberOf, type SubscribeRequest } from './codec.ts'
import type { FanOut } from './fan-out.ts'
import { compileFilters, countKeys, type FilterLimits } from './filter-compile.ts'
import type { FilterSet } from './filter-set.ts'
import { frameOf, updateTag } from './frame.ts'
import type { Group } from './group.ts'
import type { EndReason, GrpcMeters } from './meters.ts'
import { Replayer, type ReplayingStream } from './replayer.ts'
import type { Run } from './slab.ts'

/** What http2 holds of a stream; the rest waits in our queue, where a status need not follow it. */
const handedBytesMax = 256 * 1024
const keysPerCredit = 1_000
/** Taken runs are cut off the queue's front this many at a time. */
const queueCut = 256

export interface SubscriberDeps {
  readonly hub: Hub<SolanaUpdate>
  readonly fanOut: FanOut
  readonly codec: Codec
  readonly limits: FilterLimits
  readonly backlogBytesMax: number
  readonly clock: Clock
  readonly meters: GrpcMeters
  /** Counts what goes out, against the caller's budget. */
  meter(bytes: number, updates: number): void
  /** Takes credits for a request; a status when there are not enough. */
  charge(credits: number): GrpcStatus | null
  ended(): void
}

export class Subscriber implements StreamEvents, ReplayingStream {
  readonly #stream: GrpcStream
  readonly #deps: SubscriberDeps
  #queue: Run[] = []
  #head = 0
  #queuedBytes = 0
  #group: Group | null = null
  #replayer: Replayer | null = null
  #filters: FilterSet | null = null
  #hasAsked = false
  #isOver = false

  constructor(stream: GrpcStream, deps: SubscriberDeps) {
    this.#stream = stream
    this.#deps = deps
  }

  get backlogBytes(): number {
    return this.#queuedBytes + this.#stream.unsentBytes
  }

  message(bytes: Buffer): void {
    if (this.#isOver) return
    const request = this.#deps.codec.decode<SubscribeRequest>('geyser.SubscribeRequest', bytes)
    // A ping is answered alone, whatever else the request carries.
    if (request === null) this.#refuse('the message is no SubscribeRequest')
    else if (request.ping) this.#send(pongFrame(request.ping.id, this.#deps.clock.nowMs()))
    else this.#ask(request)
  }

  /** A client that will ask for nothing more still listens. */
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
    this.#replayer = null
    this.#group = this.#deps.fanOut.join(this, this.#filters!)
  }

  fellBehind(): void {
    this.end('lagged', {
      code: grpcCode.dataLoss,
      details: 'lagged: the replayed slots left the replay window before they were read',
    })
  }

  /** Ends the stream with a status. What waits in our own queue is dropped, so that it is seen. */
  end(reason: EndReason, status: GrpcStatus): void {
    if (this.#isOver) return
    this.#finish(reason)
    this.#stream.end(status)
  }

  #ask(request: SubscribeRequest): void {
    // The first request was paid for when the stream opened; long lists of keys cost extra, as
    // reading them keeps everybody waiting.
    const credits = (this.#hasAsked ? 1 : 0) + Math.floor(countKeys(request) / keysPerCredit)
    this.#hasAsked = true
    const refusal = credits === 0 ? null : this.#deps.charge(credits)
    if (refusal !== null) {
      this.end('quota', refusal)
      return
    }
    const compiled = compileFilters(request, this.#deps.limits)
    if (compiled.ok) this.#follow(compiled.value, given(request, 'fromSlot'))
    else this.#refuse(compiled.refusal.message)
  }

  #follow(filters: FilterSet, from: Long64 | undefined): void {
    const { hub, fanOut } = this.#deps
    const fromSlot = from === undefined ? null : (numberOf(from) ?? Number.MAX_SAFE_INTEGER)
    const replay = fromSlot === null ? null : hub.replay(filters.commitment, fromSlot)
    if (fromSlot !== null && replay === null && hub.oldestSlot !== null) {
      const details = `from_slot ${fromSlot} is not available, the oldest slot is ${hub.oldestSlot}`
      this.end('out-of-range', { code: grpcCode.outOfRange, details })
      return
    }
    this.#part()
    this.#filters = filters
    if (replay === null) this.#group = fanOut.join(this, filters)
    else this.#replayer = new Replayer(replay, filters, fanOut.pool, this)
  }

  #refuse(details: string): void {
    this.end('invalid', { code: grpcCode.invalidArgument, details })
  }

  #part(): void {
    this.#replayer?.stop()
    this.#replayer = null
    if (this.#group !== null) this.#deps.fanOut.leave(this, this.#group)
    this.#group = null
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
    this.#part()
    this.#deps.meters.ended[reason].inc()
    this.#deps.ended()
  }
}

/** SubscribeUpdatePong: id is an int32, negative ones in ten bytes. */
function pongFrame(id: number, nowMs: number): Buffer {
  let rest = BigInt.asUintN(64, BigInt(id))
  const bytes = rest === 0n ? [] : [0x08]
  for (; rest >= 0x80n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80)
  if (id !== 0) bytes.push(Number(rest))
  return frameOf(updateTag.pong, Uint8Array.from(bytes), nowMs)
}
