// Publishes the frames of the event log to all clients of the event stream.
//
//   EventLog.append --> publish to json/<Kind> and msgpack/<Kind>: one native call per encoding
//                       '--> periodic check: a client over the unsent bound leaves the topics
//   following and lagging clients take turns, a slice each, until they reach the published seq
//
// The bytes published per turn are bounded, because uWebSockets buffers them until the turn ends:
// the rest is published in the next turns, in order.
import { assert } from '../../base/assert.ts'
import type { Clock } from '../../base/clock.ts'
import { CLOSE_GOING_AWAY, CLOSE_TOO_SLOW } from '../../base/transport/reply.ts'
import {
  type Encoding,
  encodings,
  type FrameKind,
  frameKinds,
  type StoredFrame,
  unknownKind,
} from '../../streams/log/encoded.ts'
import { type StreamClient, type StreamParts, topicOf } from './client.ts'

/** Publishes to every socket of the endpoint that subscribed to a topic. */
export type Publish = (topic: string, bytes: Buffer, isBinary: boolean) => void

/**
 * Fraction of a client's bound published per turn. uWebSockets discards data beyond twice the
 * bound, and the bytes of a turn appear in the unsent bytes one turn later: the bound, two turns
 * and a frame stay within.
 */
const turnPart = 1 / 4
/** Published bytes, as a fraction of the bound, after which all live sockets are checked. */
const checkPart = 1 / 16
/** How often slow clients are checked when nothing is published. */
const sweepMs = 1000

/** The topics of a kind, one per encoding. */
const topicsOf = Object.fromEntries(
  frameKinds.map((kind) => [
    kind,
    encodings.map((encoding) => ({
      encoding,
      topic: topicOf(encoding, kind),
      isBinary: encoding === 'msgpack',
    })),
  ]),
  // Reason for the cast: fromEntries loses the types of the keys.
) as Record<FrameKind, { encoding: Encoding; topic: string; isBinary: boolean }[]>

export class StreamSockets {
  readonly #parts: StreamParts
  readonly #clock: Clock
  readonly #clients = new Set<StreamClient>()
  /** Each client is either fed by topics or follows the log. */
  readonly #live = new Set<StreamClient>()
  readonly #followers = new Set<StreamClient>()
  /** Number of live clients per topic. */
  readonly #listening = new Map<string, number>()
  readonly #endListening: () => void
  readonly #turnBytesMax: number
  readonly #sweepTimer: NodeJS.Timeout
  #publish: Publish = () => {}
  #publishedSeq: number
  #turnBytes = 0
  #uncheckedBytes = 0
  #turnTimer: NodeJS.Immediate | null = null

  constructor(parts: StreamParts, clock: Clock) {
    this.#parts = parts
    this.#clock = clock
    this.#publishedSeq = parts.log.position
    this.#turnBytesMax = parts.limits.unsentBytesMax * turnPart
    const endFrames = parts.log.listen((frame) => this.#take(frame))
    const endRestarts = parts.log.onRestart(() => this.#restart())
    this.#endListening = () => {
      endFrames()
      endRestarts()
    }
    this.#sweepTimer = setInterval(() => this.sweep(), sweepMs)
    this.#sweepTimer.unref()
  }

  get count(): number {
    return this.#clients.size
  }

  /** Clients that are not fed by topics right now. */
  get followers(): number {
    return this.#followers.size
  }

  /** Sets the publisher; each opening of the endpoint has its own. */
  usePublisher(publish: Publish): void {
    this.#publish = publish
  }

  add(client: StreamClient): void {
    this.#clients.add(client)
    this.#followers.add(client)
    this.#advance(client)
  }

  /** The socket was closed, by either side. */
  remove(client: StreamClient): void {
    if (!this.#clients.delete(client)) return
    this.#leaveLive(client)
    client.state = 'closed'
    this.#followers.delete(client)
  }

  /** The peer has read: a follower may continue. */
  drained(client: StreamClient): void {
    if (this.#followers.has(client) && client.hasSendCapacity()) this.#advance(client)
  }

  setKinds(client: StreamClient, kinds: StreamClient['kinds']): void {
    const isLive = this.#leaveLive(client)
    client.setKinds(kinds)
    if (isLive) this.#joinLive(client)
  }

  stop(): void {
    this.#endListening()
    clearInterval(this.#sweepTimer)
    if (this.#turnTimer !== null) clearImmediate(this.#turnTimer)
  }

  /** Disconnects clients that were slow for too long; advances followers that missed a drain. */
  sweep(): void {
    const nowMs = this.#clock.monotonicMs()
    this.#checkLive(nowMs)
    for (const client of [...this.#followers]) {
      if (client.hasSendCapacity()) this.#advance(client)
      if (client.isTooSlow(nowMs)) {
        this.#followers.delete(client)
        this.#parts.meters.slowCuts.inc()
        client.end(CLOSE_TOO_SLOW, 'too slow')
      }
    }
  }

  #take(frame: StoredFrame): void {
    if (this.#clients.size === 0) {
      this.#publishedSeq = frame.seq
      return
    }
    if (this.#publishedSeq === frame.seq - 1 && this.#turnBytes < this.#turnBytesMax)
      this.#send(frame)
    this.#scheduleTurn()
  }

  #send(frame: StoredFrame): void {
    this.#publishedSeq = frame.seq
    const { kind } = frame
    // No client of this version can have asked for it.
    if (kind === unknownKind) return
    const { log, meters } = this.#parts
    for (const { encoding, topic, isBinary } of topicsOf[kind]) {
      const listeners = this.#listening.get(topic) ?? 0
      if (listeners === 0) continue
      const bytes = log.encoded(frame, encoding)
      this.#publish(topic, bytes, isBinary)
      meters.framesSent[kind].inc(listeners)
      this.#turnBytes += bytes.length
      this.#uncheckedBytes += bytes.length
    }
    meters.frameDelivery.observeMs(this.#clock.monotonicMs() - frame.sinceMs)
  }

  #scheduleTurn(): void {
    this.#turnTimer ??= setImmediate(() => {
      this.#turnTimer = null
      this.#turn()
    })
  }

  /** Publishes what the previous turn left over, then gives each follower a slice. */
  #turn(): void {
    const { log, limits } = this.#parts
    this.#turnBytes = 0
    if (this.#publishedSeq < log.oldestSeq - 1) this.#skipLost()
    if (this.#uncheckedBytes >= limits.unsentBytesMax * checkPart)
      this.#checkLive(this.#clock.monotonicMs())
    while (this.#publishedSeq < log.position && this.#turnBytes < this.#turnBytesMax)
      this.#send(log.at(this.#publishedSeq + 1)!)
    for (const client of [...this.#followers]) this.#advance(client)
    if (this.#publishedSeq < log.position) this.#scheduleTurn()
  }

  /** Publishing lags by more than the buffer: live clients are disconnected and must resume. */
  #skipLost(): void {
    for (const client of [...this.#live]) client.end(CLOSE_TOO_SLOW, 'frames were lost')
    this.#publishedSeq = this.#parts.log.position
  }

  /** The log begins anew: no cursor is valid any more, so every client connects again. */
  #restart(): void {
    for (const client of [...this.#clients])
      client.end(CLOSE_GOING_AWAY, 'the event numbers changed')
    this.#publishedSeq = this.#parts.log.position
  }

  #checkLive(nowMs: number): void {
    this.#uncheckedBytes = 0
    const { unsentBytesMax } = this.#parts.limits
    for (const client of this.#live) {
      if (client.socket.unsentBytes <= unsentBytesMax) continue
      this.#leaveLive(client)
      client.lag(this.#publishedSeq, nowMs)
      this.#followers.add(client)
    }
  }

  #advance(client: StreamClient): void {
    if (client.state === 'lagging' && !client.hasSendCapacity()) return
    const result = client.follow(this.#publishedSeq, this.#clock.monotonicMs())
    if (result === 'live') {
      this.#followers.delete(client)
      this.#joinLive(client)
    } else if (result === 'more') this.#scheduleTurn()
  }

  #joinLive(client: StreamClient): void {
    this.#live.add(client)
    this.#count(client, 1)
  }

  #leaveLive(client: StreamClient): boolean {
    if (!this.#live.delete(client)) return false
    this.#count(client, -1)
    return true
  }

  #count(client: StreamClient, by: 1 | -1): void {
    for (const topic of client.topics()) {
      const listening = (this.#listening.get(topic) ?? 0) + by
      assert(listening >= 0, 'a client leaves the topics that it joined')
      this.#listening.set(topic, listening)
    }
  }
}
