// One client of the event stream: its cursor in the log, snapshot, resume and backpressure.
//
//             snapshot or resume                caught up
//   connect ----------------------> following -----------> live (fed by topics, no work per client)
//                                      ^                     |
//                                      '--- over the bound --'  lagging: must-keep frames follow
//                                                               from the log, the rest is replaced
//                                                               by the newest of its kind
// A cursor is kept only while following: a live client's position is that of publishing.
import { assert } from '../../base/assert.ts'
import {
  controlFrame,
  type Encoding,
  type FrameKind,
  type StreamKind,
} from '../../streams/log/encoded.ts'
import type { EventLog } from '../../streams/log/log.ts'
import type { ActiveBlocks } from './active-blocks.ts'
import type { Connect } from './handle.ts'
import type { MetricsMeters } from './meters.ts'

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
      if (this.state === 'lagging' && this.#isReplaced(kind, frame.seq)) {
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

  #isReplaced(kind: FrameKind, seq: number): boolean {
    return replaceable.has(kind) && this.#parts.log.latest(kind)?.seq !== seq
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
