// One Subscribe stream: its requests, filters and send queue.
// A slow reader delays no other stream: its queue is bounded, and overflow ends the stream, or
// continues that of a consumer from what is kept, at its own pace, until it has caught up.
//
//   request -> charge size, ping, filters or keys -> fan-out (live), replayer (from_slot, consumer)
//   runs -> queue (at most 16 MiB) -> http2 (at most 256 KiB of it)
import { Bucket } from '../../base/bucket.ts'
import type { Clock } from '../../base/clock.ts'
import { commitmentNames } from '../../base/commitment.ts'
import { assert } from '../../base/errors.ts'
import { BackWriter, ProtoReader, WIRE_BYTES } from '../../base/protobuf.ts'
import type { GrpcEncoding } from '../../base/transport/grpc-encoding.ts'
import type { GrpcStatus, GrpcStream, StreamEvents } from '../../base/transport/grpc-stream.ts'
import { grpcCode } from '../../base/transport/grpc-stream.ts'
import type { SolanaUpdate } from '../../chain/solana/updates.ts'
import type { Hub, KeptStream, ReplayPosition } from '../hub/hub.ts'
import { type Codec, given, type KeysRequest, numberOf, type SubscribeRequest } from './codec.ts'
import {
  Consumer,
  type ConsumerNames,
  consumerHeader,
  consumerStatus,
  laterVersion,
} from './consumer.ts'
import type { FanOut } from './fan-out.ts'
import type { FilterLimits } from './filter-compile.ts'
import { compileFilters, compileKeyChanges, countKeys } from './filter-compile.ts'
import { type FilterSet, type KeyChange, keysAt, listsOf, withRetractions } from './filter-set.ts'
import { frameOf, type Run, type SubscriberGroup, updateTag } from './frame.ts'
import type { EndReason, GrpcMeters } from './meters.ts'
import { type Position, type PublishedSlots, Resumption } from './position.ts'
import { aheadBytes, Replayer, type ReplayingStream, type ReplayMeans } from './replayer.ts'

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
/** Metadata that a stream reads. */
export const streamHeaders = [retractionsHeader, consumerHeader]
/** Messages of a stream whose consumer is not known yet. */
const waitingMax = 64
/** Pongs and other answers of a stream that wait to be sent: a replay is no bound of theirs. */
const answersMax = 4_096
/** A gateway may be as far behind the one where a consumer was before. */
const aheadSlotsMax = 512
/** Sent runs are removed from the front of the queue this many at a time. */
const queueCut = 256

export interface SubscriberDeps {
  readonly hub: Hub<SolanaUpdate>
  /** Null where only memory is replayed. */
  readonly streamLog: KeptStream<SolanaUpdate> | null
  /** Null where there are no consumers. */
  readonly published?: PublishedSlots | null
  readonly consumers?: ConsumerNames | null
  readonly fanOut: FanOut
  readonly codec: Codec
  /** In force now, by the caller's plan. */
  limits(): FilterLimits
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
  readonly #means: ReplayMeans
  #queue: Run[] = []
  #head = 0
  #queuedBytes = 0
  /** How many of the queue are the stream's own. */
  #answers = 0
  #group: SubscriberGroup | null = null
  #replayer: Replayer | null = null
  #filters: FilterSet | null = null
  /** Of a stream that is no consumer's; 0 without one. */
  #fromSlot = 0
  readonly #freePings = new Bucket(freePings)
  #chargedPings = 0
  #hasRequested = false
  #consumer: Consumer | null = null
  /** It reads from what is kept since it had too much to read; and a look whether that is so. */
  #isBehind = false
  #isLooking = false
  /** What waited when it fell behind: a moment of the hub may have more than a queue. */
  #burstBytes = 0
  /** Messages that wait while the position of the consumer is read. */
  #waiting: Buffer[] | null = null
  #isOver = false

  constructor(stream: GrpcStream, deps: SubscriberDeps) {
    this.encoding = stream.encoding
    this.#stream = stream
    this.#deps = deps
    this.#means = { pool: deps.fanOut.pool, hub: deps.hub }
  }

  get backlogBytes(): number {
    return this.#queuedBytes + this.#stream.unsentBytes
  }

  message(bytes: Buffer): void {
    if (this.#isOver) return
    if (this.#waiting !== null) {
      this.#waiting.push(bytes)
      if (this.#waiting.length > waitingMax) this.#refuse('too many requests at once')
      return
    }
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
    if (this.#consumer !== null && this.#group !== null) {
      this.#look()
      return
    }
    // A replay pauses by itself.
    if (this.#replayer !== null) return
    if (this.#queuedBytes <= this.#deps.backlogBytesMax + this.#burstBytes) return
    this.#lag(`${this.backlogBytes} bytes were waiting, the stream reads too slowly`)
  }

  ping(): void {
    this.#send(updateTag.ping)
  }

  caughtUp(): void {
    // The last frames of the replay may have been too many.
    if (this.#isOver) return
    assert(this.#group === null, 'a stream is in one group')
    this.#replayer = null
    this.#join(this.#filters!)
    this.#burstBytes = 0
    if (this.#isBehind) this.#sendBehind(false)
  }

  /** Whether a consumer's stream reads too slowly; decided when the hub has published a moment. */
  #look(): void {
    if (this.#isLooking || this.#group === null || this.#queuedBytes <= this.aheadMax) return
    this.#isLooking = true
    setImmediate(() => {
      this.#isLooking = false
      if (this.#group !== null && this.#queuedBytes > this.aheadMax) this.#fallBehind()
    })
  }

  /** Half of the bound: a replay that ends leaves room for what is live. */
  get aheadMax(): number {
    return Math.min(aheadBytes, this.#deps.backlogBytesMax / 2)
  }

  #fallBehind(): void {
    const { hub, published } = this.#deps
    const filters = this.#filters!
    const { commitment } = filters
    const isAlone = this.#group!.sinks.size === 1
    this.#burstBytes = Number.POSITIVE_INFINITY
    this.#leave()
    this.#burstBytes = this.#queuedBytes
    const position = published!.position(commitment)
    const replay = this.#replayOf(filters, 0, hub.end(commitment))!
    if (!this.#isBehind) this.#sendBehind(true)
    if (this.#isOver) return
    this.#replayer = new Replayer(replay, filters, this.#means, this, {
      resumption: new Resumption(position, 'exact'),
      published: published!,
      otherBlock: () => {},
    })
    this.#replayer.sharesLists = !isAlone
  }

  lostReplay(): void {
    this.#lag('the replayed slots left the replay window before they were read')
  }

  #lag(why: string): void {
    this.end('lagged', { code: grpcCode.dataLoss, details: `lagged: ${why}` })
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
    else if (ping.id < 0 && this.#consumer !== null) this.#commit(this.#consumer, -ping.id)
    else this.#pong(ping.id)
  }

  #pong(id: number): void {
    const position = id > 0 && this.#consumer !== null ? this.#position() : null
    // The frames before it may have been too many.
    if (this.#isOver) return
    if (position !== null) this.#consumer!.mark(id, position)
    // SubscribeUpdatePong: id is an int32, negative ones in ten bytes.
    answerWriter.big(1, BigInt(id))
    this.#send(updateTag.pong)
  }

  #commit(consumer: Consumer, id: number): void {
    const stored = consumer.commitMark(id)
    if (stored === null) this.#refuse(`ping ${-id}: no pong ${id} of this stream is remembered`)
    else void stored.then(() => this.#pong(-id))
  }

  /** After everything that was queued; null while the stream is given nothing. */
  #position(): Position | null {
    if (this.#replayer !== null) return this.#replayer.position()
    this.#group?.flush()
    if (this.#group === null) return null
    return this.#deps.published!.position(this.#group.filters.commitment)
  }

  #onRequest(bytes: Buffer, sizeCredits: number): void {
    const request = this.#deps.codec.decode<SubscribeRequest>('geyser.SubscribeRequest', bytes)
    if (request === null || request.ping) return void this.#refuse(noRequest)
    // Opening the stream paid for the first request; long lists of keys cost extra, as compiling
    // them blocks the main thread.
    const keyCredits = Math.floor(countKeys(request) / keysPerCredit)
    const credits = (this.#hasRequested ? 1 : 0) + Math.max(0, keyCredits - sizeCredits)
    this.#hasRequested = true
    if (!this.#pay(credits)) return
    if (request.keys) {
      this.#onKeys(request.keys, !isAlone(request))
      return
    }
    const compiled = compileFilters(request, this.#deps.limits())
    if (!compiled.ok) return void this.#refuse(compiled.refusal.message)
    const isRetracting = this.#stream.header(retractionsHeader) === 'true'
    const filters = isRetracting ? withRetractions(compiled.value) : compiled.value
    const from = given(request, 'fromSlot')
    const fromSlot = from && (numberOf(from) ?? Number.MAX_SAFE_INTEGER)
    const asked = { filters, fromSlot: fromSlot ?? null }
    const name = this.#stream.header(consumerHeader)
    if (name === undefined) this.#follow(asked)
    else if (this.#consumer !== null) this.#consume(this.#consumer, asked)
    else void this.#openConsumer(name, asked)
  }

  async #openConsumer(name: string, asked: Asked): Promise<void> {
    const { consumers = null, published = null } = this.#deps
    if (consumers === null || published === null)
      return void this.end('invalid', consumerStatus['no-log'])
    this.#waiting = []
    const held = await consumers.open(name, () => this.end('replaced', consumerStatus.taken))
    const waiting = this.#waiting
    this.#waiting = null
    if (typeof held === 'string') this.end('invalid', consumerStatus[held])
    else if (this.#isOver) held.close()
    else {
      this.#consumer = new Consumer(held)
      if (this.#consumer.isOfLaterVersion) this.end('invalid', laterVersion)
      else this.#consume(this.#consumer, asked)
      for (const bytes of waiting) this.message(bytes)
    }
  }

  /** Continues where the consumer is: where its stream is, or where it committed. */
  #consume(consumer: Consumer, { filters, fromSlot }: Asked): void {
    const { commitment } = filters
    const at = this.#position() ?? consumer.start
    if (this.#isOver) return
    if (at !== null && at.commitment !== commitment) {
      const details = `the position of this consumer is ${commitmentNames[at.commitment]}`
      this.end('invalid', { code: grpcCode.failedPrecondition, details })
      return
    }
    const isLive = this.#group !== null || (at === null && fromSlot === null)
    if (isLive) {
      this.#leave()
      if (this.#isOver) return
      this.#join(filters)
      if (at === null) void consumer.commit(this.#position()!)
      return
    }
    const start = at ?? { commitment, floor: fromSlot!, slots: [], parts: [] }
    if (this.#resume(consumer, filters, start) && at === null) void consumer.commit(start)
  }

  /** False when what follows the position is not there. */
  #resume(consumer: Consumer, filters: FilterSet, at: Position): boolean {
    const { hub, streamLog } = this.#deps
    const replay = this.#replayOf(filters, at.floor)
    const { oldestSlot } = streamLog!
    const { newestSlot } = hub
    if (replay === null || newestSlot === null || at.floor > newestSlot + aheadSlotsMax) {
      const range = `slots ${oldestSlot} to ${newestSlot} are; it begins anew when it is reset`
      const where = `the consumer is at slot ${at.floor}, which is not available`
      // A start that has read nothing yet does not know: what is kept is of earlier ones.
      const oldest = newestSlot === null ? null : oldestSlot
      this.#endOutOfRange(oldest, `${where}: ${range}`)
      return false
    }
    this.#leave()
    this.#filters = filters
    this.#replayer = new Replayer(replay, filters, this.#means, this, {
      resumption: new Resumption(at, 'floor', filters.retractions !== null),
      published: this.#deps.published!,
      otherBlock: (slot) => {
        const details = `slot ${slot} has another block here: subscribe again, it is sent whole`
        const end = () => this.end('replaced', { code: grpcCode.aborted, details })
        // The next stream, here or elsewhere, begins at what is stored.
        void consumer.drop(slot).then(end)
      },
    })
    return true
  }

  /** Answers a change of keys, also one that is refused: the stream keeps its filters then. */
  #onKeys(request: KeysRequest, hasMore: boolean): void {
    const answer = (fromSlot: number, error: string | null) => {
      if (this.#isOver) return
      // SubscribeUpdateKeys.
      if (error !== null) answerWriter.stringAlways(3, error)
      answerWriter.number(2, fromSlot)
      answerWriter.big(1, BigInt(request.id))
      this.#send(updateTag.keys)
    }
    if (hasMore) answer(0, 'failed to change keys: the request has other fields as well')
    else if (this.#filters === null) answer(0, 'failed to change keys: the stream has no filters')
    else {
      const compiled = compileKeyChanges(request, this.#filters, this.#deps.limits())
      if (!compiled.ok) answer(0, compiled.refusal.message)
      else answer(this.#changeKeys(this.#filters, compiled.value), null)
    }
  }

  /** Returns the first slot that is matched by the new keys. */
  #changeKeys(filters: FilterSet, changes: readonly KeyChange[]): number {
    const { fanOut } = this.#deps
    const [replayer, group] = [this.#replayer, this.#group]
    // Its frames may be too many for the stream, which then leaves by itself.
    group?.flush()
    if (this.#isOver) return 0
    // Leaving others copies every list, which costs as much as sending it.
    if (replayer?.sharesLists === true || (group !== null && group.sinks.size > 1)) {
      let keys = 0
      for (const at of listsOf(filters)) keys += keysAt(filters, at).size
      if (!this.#pay(Math.floor(keys / keysPerCredit))) return 0
    }
    if (replayer !== null) {
      // For when it is live: no group of others has these keys.
      this.#filters = replayer.own()
      return replayer.changeKeys(changes)
    }
    this.#group = fanOut.own(this, group!)
    this.#filters = this.#group.filters
    return fanOut.changeKeys(this.#group, changes)
  }

  #join(filters: FilterSet): void {
    this.#group = this.#deps.fanOut.join(this, filters)
    this.#filters = this.#group.filters
  }

  #follow({ filters, fromSlot: asked }: Asked): void {
    const { hub, streamLog } = this.#deps
    const replayer = asked === null ? this.#replayer : null
    // The rest of a replay comes with the new filters.
    if (replayer?.replace(filters)) {
      this.#filters = filters
      return
    }
    const fromSlot = replayer === null ? asked : Math.max(this.#fromSlot, replayer.nextSlot)
    const { oldestSlot } = streamLog ?? hub
    const replay = fromSlot === null ? null : this.#replayOf(filters, fromSlot)
    if (fromSlot !== null && replay === null) {
      // Live from an unknown slot on it might lack some, or get some again.
      const range = `the oldest slot is ${oldestSlot}`
      this.#endOutOfRange(oldestSlot, `from_slot ${fromSlot} is not available, ${range}`)
      return
    }
    this.#leave()
    // The frames that were batched for it may have been too many.
    if (this.#isOver) return
    this.#filters = filters
    this.#fromSlot = fromSlot ?? 0
    if (replay === null) this.#join(filters)
    else this.#replayer = new Replayer(replay, filters, this.#means, this)
  }

  /** Not for a slot that is far off, which is a mistake: such a stream begins live. */
  get isAhead(): boolean {
    const { hub } = this.#deps
    if (hub.newestAt(this.#filters!.commitment) >= this.#fromSlot - 1) return false
    return this.#fromSlot <= (hub.newestSlot ?? 0) + aheadSlotsMax
  }

  #replayOf({ commitment, blocks }: FilterSet, fromSlot: number, at?: ReplayPosition) {
    const { hub, streamLog } = this.#deps
    if (streamLog === null) return hub.replay(commitment, fromSlot)
    const wanted = { commitment, fromSlot, wantsBlocks: blocks.length > 0, usesAtOnce: true }
    return streamLog.replay({ ...wanted, ...(at && { at }) })
  }

  /** Ends the stream and returns false when the budget is exhausted. */
  #pay(credits: number): boolean {
    const refusal = credits === 0 ? null : this.#deps.charge(credits)
    if (refusal !== null) this.end('quota', refusal)
    return refusal === null
  }

  #endOutOfRange(oldestSlot: number | null, details: string): void {
    const nothing = { code: grpcCode.unavailable, details: 'nothing is kept yet, try again' }
    const status = oldestSlot === null ? nothing : { code: grpcCode.outOfRange, details }
    this.end('out-of-range', status)
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

  #sendBehind(isBehind: boolean): void {
    this.#isBehind = isBehind
    answerWriter.number(2, this.#deps.hub.newestSlot ?? 0)
    answerWriter.flag(1, isBehind)
    this.#send(updateTag.behind)
  }

  /** Sends what was written. */
  #send(tag: number): void {
    const bytes = frameOf(tag, answerWriter.take(), this.#deps.clock.nowMs())
    if (++this.#answers > answersMax) this.#lag(`${answersMax} answers were waiting`)
    this.take([{ bytes, slab: null, isAnswer: true }], bytes.length, 1)
  }

  #pump(): void {
    const queue = this.#queue
    let isAmid = false
    // Never a part of a frame alone: the stream may end before the rest.
    while (this.#head < queue.length && (isAmid || this.#stream.unsentBytes < handedBytesMax)) {
      const { bytes, slab, isAnswer, isPart = false } = queue[this.#head++]!
      isAmid = isPart
      this.#queuedBytes -= bytes.length
      if (isAnswer) this.#answers--
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
    this.#consumer?.close()
    this.#deps.meters.ended[reason].inc()
    this.#deps.ended()
  }
}

interface Asked {
  readonly filters: FilterSet
  readonly fromSlot: number | null
}

const noRequest = 'the message is no SubscribeRequest'

const answerWriter = new BackWriter()

/** Whether the request has one field; protobufjs gives empty maps and lists for absent ones. */
function isAlone(request: SubscribeRequest): boolean {
  const isSent = (value: unknown) =>
    typeof value !== 'object' || value === null || Object.keys(value).length > 0
  return Object.values(request).filter(isSent).length === 1
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
