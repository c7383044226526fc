// A connection to a node's geyser.Geyser: messages in and out as bytes. Thread: geyser.
// gRPC over node:http2 directly: a call object of @grpc/grpc-js costs ten times the CPU per
// message, and flow-control windows and ping timeouts are set here. No error contains an address
// or a token.
//
//   subscribe ──► POST /geyser.Geyser/Subscribe, x-token ──► DATA ──► MessageBatcher ──► listener
//   no byte for 1 s ──► HTTP/2 ping ──► no byte for 3 s ──► timeout, `silent`
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2'
import type { Clock } from '../../base/clock.ts'
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { frameMessage, MessageBatcher, type TakeMessages } from './messages.ts'

/** HTTP/2 flow-control window: fills a link of 1 Gbit/s at 250 ms. */
const windowBytes = 32 * 1024 * 1024
const frameBytesMax = 1024 * 1024
const sessionMegabytesMax = 512
/** Time without a byte before a ping, and before the connection times out. */
const pingAfterMs = 1_000
const silenceTimeoutMs = 3_000
const watchEveryMs = 250
/** A timer this late means that our event loop stalled, not that the node is silent. */
const lateMs = 500

const service = '/geyser.Geyser/'
const grpcOk = 0
const grpcUnknown = 2
const { HTTP2_HEADER_STATUS, NGHTTP2_CANCEL } = constants

/** How a call or a stream ended: a gRPC status of the node, or a connection failure. */
export interface GeyserEnd {
  readonly kind: 'status' | 'connection' | 'silent' | 'broken'
  /** The gRPC code; 2 (unknown) without a status. */
  readonly code: number
  /** The node's own message; not for customers. */
  readonly details: string
}

export interface GeyserListener {
  /** The node accepted the call; an error status may still follow. */
  opened?(): void
  /** That many bytes arrived; called before they are parsed, for exact arrival times. */
  arrived?(bytes: number): void
  /** Whole messages; the listener may keep the bytes. */
  messages: TakeMessages
  /** Called last. */
  ended(end: GeyserEnd): void
}

export interface GeyserStream {
  send(message: Uint8Array): void
  cancel(): void
  /** Stops reading: flow control then holds the node back. */
  pause(): void
  resume(): void
}

export interface GeyserTarget {
  /** URL with scheme http or https. */
  readonly address: string
  /** '' for a node without a token. */
  readonly xToken: string
}

export class GeyserClient {
  readonly #session: ClientHttp2Session
  readonly #headers: Readonly<Record<string, string>>
  readonly #path: string
  readonly #clock: Clock
  readonly #watcher: NodeJS.Timeout
  readonly #calls = new Set<(end: GeyserEnd) => void>()
  #receivedMs: number
  #watchedMs: number
  #end: GeyserEnd | null = null

  /** Connects at once; calls wait until it is connected. */
  constructor(target: GeyserTarget, clock: Clock) {
    const { origin, pathname } = new URL(target.address)
    this.#clock = clock
    this.#receivedMs = clock.monotonicMs()
    this.#watchedMs = this.#receivedMs
    this.#path = pathname.replace(/\/$/, '')
    this.#headers = {
      ':method': 'POST',
      'content-type': 'application/grpc',
      te: 'trailers',
      'user-agent': 'sluice',
      ...(target.xToken === '' ? {} : { 'x-token': target.xToken }),
    }
    const session = connect(origin, {
      maxSessionMemory: sessionMegabytesMax,
      settings: {
        initialWindowSize: windowBytes,
        maxFrameSize: frameBytesMax,
        enablePush: false,
      },
    })
    session.on('connect', () => {
      // Also emitted after a timeout has destroyed the session.
      if (session.destroyed) return
      this.#received()
      session.setLocalWindowSize(windowBytes)
    })
    session.on('error', (error) => this.#close(connectionEnd(error)))
    session.on('goaway', () => this.#close({ ...lost, details: 'GOAWAY' }))
    session.on('close', () => this.#close(lost))
    this.#session = session
    this.#watcher = setInterval(() => this.#watch(), watchEveryMs).unref()
  }

  /** A unary call. Refusals: `unavailable`, with the GeyserEnd as data. Never rejects. */
  call(method: string, request: Uint8Array, timeoutMs: number): Promise<Outcome<Uint8Array>> {
    return new Promise((resolve) => {
      let answer: Uint8Array | null = null
      const timer = setTimeout(() => {
        stream.cancel()
        resolve(notAnswered({ ...lost, kind: 'silent' }))
      }, timeoutMs)
      const stream = this.subscribe(
        request,
        {
          messages: (bytes, [start, end]) => {
            answer = bytes.subarray(start, end)
          },
          ended: (end) => {
            clearTimeout(timer)
            const isAnswered = end.kind === 'status' && end.code === grpcOk && answer !== null
            resolve(isAnswered ? accept(answer!) : notAnswered(end))
          },
        },
        method,
        true,
      )
    })
  }

  /** Opens a stream with its first request. */
  subscribe(
    request: Uint8Array,
    listener: GeyserListener,
    method = 'Subscribe',
    isLast = false,
  ): GeyserStream {
    if (this.#end !== null) {
      const end = this.#end
      setImmediate(() => listener.ended(end))
      return { send() {}, cancel() {}, pause() {}, resume() {} }
    }
    const path = this.#path + service + method
    const stream = this.#session.request({ ...this.#headers, ':path': path })
    const finish = once((end: GeyserEnd) => {
      this.#calls.delete(finish)
      stream.close(NGHTTP2_CANCEL)
      listener.ended(end)
    })
    this.#calls.add(finish)
    this.#read(stream, listener, finish)
    stream.write(frameMessage(request))
    if (isLast) stream.end()
    return {
      send(message) {
        if (!stream.destroyed && !stream.closed) stream.write(frameMessage(message))
      },
      cancel: () => {
        this.#calls.delete(finish)
        finish.isDone = true
        stream.close(NGHTTP2_CANCEL)
      },
      pause: () => void stream.pause(),
      resume: () => void stream.resume(),
    }
  }

  /** Measures the round trip of an HTTP/2 ping; not called without an answer. */
  ping(take: (roundTripMs: number) => void): void {
    if (this.#session.destroyed || this.#session.connecting) return
    this.#session.ping((error, durationMs) => {
      if (error === null) take(durationMs)
    })
  }

  /** Ends all calls and streams. */
  close(): void {
    this.#close(lost)
  }

  #read(stream: ClientHttp2Stream, listener: GeyserListener, finish: Finish): void {
    const batcher = new MessageBatcher((bytes, offsets) => {
      if (!finish.isDone) listener.messages(bytes, offsets)
    })
    let isFlushDue = false
    const flush = () => {
      isFlushDue = false
      batcher.flush()
    }
    const end = (how: GeyserEnd) => {
      flush()
      finish(how)
    }
    let status: GeyserEnd | null = null
    stream.on('response', (headers) => {
      this.#received()
      // A trailers-only response.
      if (headers['grpc-status'] !== undefined) status = statusEnd(headers)
      else if (Number(headers[HTTP2_HEADER_STATUS]) !== 200)
        finish({ ...lost, details: `HTTP ${headers[HTTP2_HEADER_STATUS]}` })
      else if (!finish.isDone) listener.opened?.()
    })
    stream.on('data', (chunk: Buffer) => {
      if (finish.isDone) return
      listener.arrived?.(chunk.length)
      if (!batcher.push(chunk)) end(malformed)
      if (isFlushDue) return
      // Once in a turn of the event loop, for all frames that it brings.
      isFlushDue = true
      this.#received()
      setImmediate(flush)
    })
    stream.on('trailers', (headers) => {
      status = statusEnd(headers)
    })
    stream.on('error', (error) => end(status ?? connectionEnd(error)))
    stream.on('end', () => end(status ?? lost))
    stream.on('close', () => end(status ?? lost))
  }

  #received(): void {
    this.#receivedMs = this.#clock.monotonicMs()
  }

  #watch(): void {
    const nowMs = this.#clock.monotonicMs()
    // After a stall of our event loop, socket data is read only after this timer.
    if (nowMs - this.#watchedMs > watchEveryMs + lateMs) this.#receivedMs = nowMs
    this.#watchedMs = nowMs
    const quietMs = nowMs - this.#receivedMs
    if (quietMs >= silenceTimeoutMs) this.#close({ ...lost, kind: 'silent' })
    else if (quietMs >= pingAfterMs && !this.#session.destroyed && !this.#session.connecting)
      this.#session.ping((error) => {
        if (error === null) this.#received()
      })
  }

  #close(end: GeyserEnd): void {
    if (this.#end !== null) return
    this.#end = end
    clearInterval(this.#watcher)
    for (const finish of [...this.#calls]) finish(end)
    this.#session.destroy()
  }
}

type Finish = ((end: GeyserEnd) => void) & { isDone: boolean }

/** A callback that runs once. */
function once(run: (end: GeyserEnd) => void): Finish {
  const finish: Finish = Object.assign(
    (end: GeyserEnd) => {
      if (finish.isDone) return
      finish.isDone = true
      run(end)
    },
    { isDone: false },
  )
  return finish
}

export const lost: GeyserEnd = { kind: 'connection', code: grpcUnknown, details: '' }
const malformed: GeyserEnd = {
  kind: 'broken',
  code: grpcUnknown,
  details: 'malformed gRPC messages',
}

export function notAnswered(end: GeyserEnd): Outcome<never> {
  return refuse('unavailable', 'upstream', 'the node did not answer', { data: end })
}

/** Only the code, of the socket's error where it has one: the message contains the address. */
function connectionEnd(error: Error): GeyserEnd {
  const { code } = (error.cause ?? error) as NodeJS.ErrnoException
  return { ...lost, details: code ?? '' }
}

function statusEnd(headers: Readonly<Record<string, unknown>>): GeyserEnd {
  const code = Number(headers['grpc-status'])
  const details = decoded(String(headers['grpc-message'] ?? ''))
  return { kind: 'status', code: Number.isInteger(code) ? code : grpcUnknown, details }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
