// Publishes the frames of the event log to all clients of the event stream.
//
//   EventLog.append --> publish to json/<Kind> and msgpack/<Kind>: one native call per encoding
//                       '--> periodic check: a client over the unsent bound leaves the topics
//   following and lagging clients take turns, a slice each, until they reach the published seq
//
// The bytes published per turn are bounded, because uWebSockets buffers them until the turn ends:
// the rest is published in the next turns, in order.
import type { Clock } from '../../base/clock.ts'
import { assert } from '../../base/errors.ts'
import { CLOSE_GOING_AWAY, CLOSE_TOO_SLOW } from '../../base/transport/reply.ts'
import {
  controlFrame,
  type Encoding,
  encodings,
  type FrameKind,
  frameKinds,
  type StoredFrame,
  type StreamKind,
  unknownKind,
} from '../../streams/log/encoded.ts'
import type { EventLog } from '../../streams/log/log.ts'
import type { ActiveBlocks } from './block-rows.ts'
import type { Connect } from './handle.ts'
import type { MetricsMeters } from './meters.ts'

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
  /** Sets the publisher; each opening of the endpoint has its own. */
  publish: Publish = () => {}
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
    // The log begins anew: no cursor is valid any more, so every client connects again.
    const endRestarts = parts.log.onRestart(() =>
      this.#endAll(this.#clients, CLOSE_GOING_AWAY, 'the event numbers changed'),
    )
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
      this.publish(topic, bytes, isBinary)
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
    if (this.#publishedSeq < log.oldestSeq - 1)
      this.#endAll(this.#live, CLOSE_TOO_SLOW, 'frames were lost')
    if (this.#uncheckedBytes >= limits.unsentBytesMax * checkPart)
      this.#checkLive(this.#clock.monotonicMs())
    while (this.#publishedSeq < log.position && this.#turnBytes < this.#turnBytesMax)
      this.#send(log.at(this.#publishedSeq + 1)!)
    for (const client of [...this.#followers]) this.#advance(client)
    if (this.#publishedSeq < log.position) this.#scheduleTurn()
  }

  /** Live publishing goes on from here; those that are disconnected resume, or begin anew. */
  #endAll(clients: Iterable<StreamClient>, code: number, reason: string): void {
    for (const client of [...clients]) client.end(code, reason)
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

// One client of the event stream: its cursor in the log, snapshot, resume and backpressure.
//
//             snapshot or resume                caught up
//   connect ----------------------> following -----------> live (fed by topics, no work per client)
//                                      ^                     |
//                                      '--- over the bound --'  lagging: must-keep frames follow
//                                                               from the log, the rest is replaced
//                                                               by the newest of its kind
// A cursor is kept only while following: a live client's position is that of publishing.

/** The subset of a WebSocket that the stream uses. */
export interface StreamSocket {
  /** Queues a frame after everything queued before, published frames included. */
  send(bytes: Uint8Array, isBinary: boolean): unknown
  /** Bytes that are not sent yet. */
  readonly unsentBytes: number
  subscribe(topic: string): void
  unsubscribe(topic: string): void
  /** Joins the sends of `work` into as few writes as possible. */
  batch(work: () => void): void
  end(code: number, reason: string): void
}

export interface StreamLimits {
  /** Unsent bytes beyond which a client counts as slow. */
  readonly unsentBytesMax: number
  /** Timeout after which a slow client that has not caught up is disconnected. */
  readonly slowMsMax: number
}

export interface StreamParts {
  readonly log: EventLog
  readonly active: ActiveBlocks
  readonly meters: MetricsMeters
  readonly limits: StreamLimits
  /** Identifies the process, where the log has no run: a cursor is valid only within one. */
  readonly run: string
}

/** Most frames that one client is sent per turn, so that no client delays the others. */
const sliceFramesMax = 512
/** Nothing is published to this topic; every socket stays subscribed to it. */
const permanentTopic = 'everybody'
/** Kinds of which a client that cannot keep up gets only the newest (conflation). */
const replaceable: ReadonlySet<string> = new Set(['TPS', 'ContentionData', 'TopAccesses'])

export type FollowResult = 'live' | 'more' | 'waits'

export class StreamClient {
  readonly socket: StreamSocket
  readonly encoding: Encoding
  readonly address: string
  kinds: readonly StreamKind[]
  state: 'following' | 'lagging' | 'live' | 'closed' = 'following'
  readonly #parts: StreamParts
  #cursor = 0
  #dropped = 0
  /** Unsent bytes at the last check whether the client is too slow. */
  #unsentBytes = 0
  /** Following: time of the last progress. Lagging: when it started to lag. */
  #sinceMs: number

  constructor(
    socket: StreamSocket,
    about: { encoding: Encoding; address: string; connect: Connect; nowMs: number },
    parts: StreamParts,
  ) {
    this.socket = socket
    this.encoding = about.encoding
    this.address = about.address
    this.kinds = about.connect.kinds
    this.#parts = parts
    this.#sinceMs = about.nowMs
    // uWebSockets discards unwritten data when a socket leaves its last topic.
    socket.subscribe(permanentTopic)
    this.#greet(about.connect)
  }

  /** Replaces the kinds; a live client changes its topics. */
  setKinds(kinds: readonly StreamKind[]): void {
    if (this.state === 'live') this.#leaveTopics()
    this.kinds = kinds
    if (this.state === 'live') this.#joinTopics()
    this.sendControl('Subscribed', { events: kinds })
  }

  sendControl(kind: 'Subscribed' | 'Error' | 'Warning', payload: unknown): void {
    const bytes = controlFrame(kind, payload, this.encoding)
    this.socket.send(bytes, this.encoding === 'msgpack')
  }

  /** A live client exceeded the bound of unsent bytes: it leaves the topics at `publishedSeq`. */
  lag(publishedSeq: number, nowMs: number): void {
    this.#leaveTopics()
    this.state = 'lagging'
    this.#cursor = publishedSeq
    this.#sinceMs = nowMs
  }

  /**
   * Sends the next frames from the log. `live`: it reached `publishedSeq` and has joined the
   * topics; `more`: call again next turn; `waits`: the peer must read, or more must be published.
   */
  follow(publishedSeq: number, nowMs: number): FollowResult {
    let result: FollowResult = 'waits'
    this.socket.batch(() => {
      result = this.#slice(publishedSeq, nowMs)
    })
    return result
  }

  /** True when a slow client timed out, or lost frames that must not be dropped. */
  isTooSlow(nowMs: number): boolean {
    if (this.state !== 'following' && this.state !== 'lagging') return false
    const { log, limits } = this.#parts
    // A slow connection is not a stalled one: a resuming client that makes progress has no timeout.
    const { unsentBytes } = this.socket
    if (this.state === 'following' && unsentBytes < this.#unsentBytes) this.#sinceMs = nowMs
    this.#unsentBytes = unsentBytes
    return nowMs - this.#sinceMs > limits.slowMsMax || this.#cursor < log.oldestSeq - 1
  }

  end(code: number, reason: string): void {
    if (this.state === 'closed') return
    this.state = 'closed'
    this.socket.end(code, reason)
  }

  /** True below a quarter of the bound: following continues there, so that slices are not tiny. */
  hasSendCapacity(): boolean {
    return this.socket.unsentBytes <= this.#parts.limits.unsentBytesMax / 4
  }

  topics(): string[] {
    return [...this.kinds, 'Gap'].map((kind) => topicOf(this.encoding, kind))
  }

  #greet(connect: Connect): void {
    const { log, meters } = this.#parts
    const run = log.run ?? this.#parts.run
    const cursor = connect.resumeFrom
    const resumes =
      cursor !== null && log.canResume(cursor) && (connect.run === null || connect.run === run)
    const mode = resumes ? 'resume' : 'snapshot'
    const payload = { mode, run, oldest: log.oldestSeq, newest: log.newestSeq }
    const isBinary = this.encoding === 'msgpack'
    this.socket.batch(() => {
      const seq = resumes ? cursor : 0
      this.socket.send(controlFrame('Resume', payload, this.encoding, seq), isBinary)
      if (!resumes) this.#sendSnapshot(isBinary)
    })
    this.#cursor = resumes ? cursor : log.position
    meters.resumes[mode].inc()
  }

  /** The stored newest frames, verbatim, ascending by seq. */
  #sendSnapshot(isBinary: boolean): void {
    const { log, active } = this.#parts
    const frames = this.kinds.flatMap((kind) => {
      if (kind === 'Lifecycle') return active.frames()
      return log.latest(kind) ?? []
    })
    frames.sort((a, b) => a.seq - b.seq)
    for (const frame of frames) this.socket.send(log.encoded(frame, this.encoding), isBinary)
  }

  #slice(publishedSeq: number, nowMs: number): FollowResult {
    const { log, limits, meters } = this.#parts
    const unsentMax = limits.unsentBytesMax / 2
    // A frame that the log has evicted is lost; `isTooSlow` detects that and ends the client.
    for (let sent = 0; this.#cursor < publishedSeq; ) {
      if (sent >= sliceFramesMax) return 'more'
      if (this.socket.unsentBytes > unsentMax) return 'waits'
      const frame = log.at(this.#cursor + 1)
      if (frame === null) return 'waits'
      this.#cursor++
      assert(frame.seq === this.#cursor, 'frames follow each other')
      sent++
      if (this.state === 'following') this.#sinceMs = nowMs
      const { kind } = frame
      if (!this.#isSubscribed(kind)) continue
      const isReplaced = replaceable.has(kind) && log.latest(kind) !== frame
      if (this.state === 'lagging' && isReplaced) {
        this.#dropped++
        meters.framesDropped[kind].inc()
        continue
      }
      this.socket.send(log.encoded(frame, this.encoding), this.encoding === 'msgpack')
      meters.framesSent[kind].inc()
    }
    // A snapshot may contain frames that are not published yet; the topics must not duplicate them.
    if (this.#cursor > publishedSeq) return 'waits'
    this.#goLive()
    return 'live'
  }

  #goLive(): void {
    if (this.#dropped > 0)
      this.sendControl('Warning', { code: 'backpressure', dropped: this.#dropped })
    this.#dropped = 0
    this.state = 'live'
    this.#joinTopics()
  }

  #isSubscribed(kind: string): kind is FrameKind {
    return kind === 'Gap' || (this.kinds as readonly string[]).includes(kind)
  }

  #joinTopics(): void {
    for (const topic of this.topics()) this.socket.subscribe(topic)
  }

  #leaveTopics(): void {
    for (const topic of this.topics()) this.socket.unsubscribe(topic)
  }
}

export function topicOf(encoding: Encoding, kind: string): string {
  return `${encoding}/${kind}`
}
