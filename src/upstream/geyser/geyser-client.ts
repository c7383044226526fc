// A connection to a node's geyser.Geyser: messages in and out as bytes. Thread: main.
// Used by geyser-feed.ts, one client per try. gRPC is spoken on node:http2 itself: a library's call
// object costs ten times the CPU per message of taking them off the stream, and windows, pings and
// their silence are ours to judge here. No error of this file names an address or a token.
//
//   subscribe ──► POST /geyser.Geyser/Subscribe, x-token ──► DATA ──► MessageSplitter ──► listener
//   silence of a second ──► HTTP/2 ping ──► three seconds without a byte ──► `silent`
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2'
import type { Clock } from '../../base/clock.ts'
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { frameMessage, MessageSplitter } from './messages.ts'

/** What a node may send ahead of our reading: a distant one fills a link of 1 Gbit/s at 250 ms. */
const windowBytes = 32 * 1024 * 1024
const frameBytesMax = 1024 * 1024
const sessionMegabytesMax = 512
/** Silence after which the node is asked whether it is there, and after which it is not. */
const pingAfterMs = 1_000
const silentMs = 3_000
const watchEveryMs = 250
/** A timer that is later than this tells of a stall of our own, which is nobody's silence. */
const lateMs = 500

const service = '/geyser.Geyser/'
const grpcOk = 0
const grpcUnknown = 2
const { HTTP2_HEADER_STATUS, NGHTTP2_CANCEL } = constants

/** How a call or a stream ended: a gRPC status of the node, or what became of the connection. */
export interface GeyserEnd {
  readonly kind: 'status' | 'connection' | 'silent' | 'broken'
  /** The gRPC code; 2 where there was none. */
  readonly code: number
  /** The node's own words; not for customers. */
  readonly details: string
}

export interface GeyserListener {
  /** The node took the call; a refusal may still follow. */
  opened?(): void
  /** One message; the bytes are the listener's to keep. */
  message(bytes: Uint8Array): void
  /** Nothing follows. */
  ended(end: GeyserEnd): void
}

export interface GeyserStream {
  send(message: Uint8Array): void
  cancel(): void
}

export interface GeyserTarget {
  /** http:// or https:// and what the operator wrote behind it. */
  readonly address: string
  /** '' for a node that asks for none. */
  readonly xToken: string
}

export class GeyserClient {
  readonly #session: ClientHttp2Session
  readonly #headers: Readonly<Record<string, string>>
  readonly #path: string
  readonly #clock: Clock
  readonly #watcher: NodeJS.Timeout
  readonly #calls = new Set<(end: GeyserEnd) => void>()
  #heardMs: number
  #watchedMs: number
  #end: GeyserEnd | null = null

  /** Connects at once; whoever calls before the connection is there waits for it. */
  constructor(target: GeyserTarget, clock: Clock) {
    const { origin, pathname } = new URL(target.address)
    this.#clock = clock
    this.#heardMs = clock.monotonicMs()
    this.#watchedMs = this.#heardMs
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
      // A session that was given up as silent can still hear that it is connected.
      if (session.destroyed) return
      this.#heard()
      session.setLocalWindowSize(windowBytes)
    })
    session.on('error', (error) => this.#over(connectionEnd(error)))
    session.on('goaway', () => this.#over({ ...lost, details: 'GOAWAY' }))
    session.on('close', () => this.#over(lost))
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
          message: (bytes) => {
            answer = bytes
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
      return { send() {}, cancel() {} }
    }
    const path = this.#path + service + method
    const stream = this.#session.request({ ...this.#headers, ':path': path })
    const finish = once((end: GeyserEnd) => {
      this.#calls.delete(finish)
      stream.close(NGHTTP2_CANCEL)
      listener.ended(end)
    })
    this.#calls.add(finish)
    this.#hear(stream, listener, finish)
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
    }
  }

  /** Ends everything that is under way. */
  close(): void {
    this.#over(lost)
  }

  #hear(stream: ClientHttp2Stream, listener: GeyserListener, finish: Finish): void {
    const splitter = new MessageSplitter((bytes) => {
      if (!finish.isDone) listener.message(bytes)
    })
    let status: GeyserEnd | null = null
    stream.on('response', (headers) => {
      this.#heard()
      // A status among the headers is all that comes.
      if (headers['grpc-status'] !== undefined) status = statusEnd(headers)
      else if (Number(headers[HTTP2_HEADER_STATUS]) !== 200)
        finish({ ...lost, details: `HTTP ${headers[HTTP2_HEADER_STATUS]}` })
      else if (!finish.isDone) listener.opened?.()
    })
    stream.on('data', (chunk: Buffer) => {
      this.#heard()
      if (!finish.isDone && !splitter.push(chunk)) finish(noMessages)
    })
    stream.on('trailers', (headers) => {
      status = statusEnd(headers)
    })
    stream.on('error', (error) => finish(status ?? connectionEnd(error)))
    stream.on('end', () => finish(status ?? lost))
    stream.on('close', () => finish(status ?? lost))
  }

  #heard(): void {
    this.#heardMs = this.#clock.monotonicMs()
  }

  #watch(): void {
    const nowMs = this.#clock.monotonicMs()
    // What came in during a stall of ours is read after this timer: nothing can be said yet.
    if (nowMs - this.#watchedMs > watchEveryMs + lateMs) this.#heardMs = nowMs
    this.#watchedMs = nowMs
    const quietMs = nowMs - this.#heardMs
    if (quietMs >= silentMs) this.#over({ ...lost, kind: 'silent' })
    else if (quietMs >= pingAfterMs && !this.#session.destroyed && !this.#session.connecting)
      this.#session.ping((error) => {
        if (error === null) this.#heard()
      })
  }

  #over(end: GeyserEnd): void {
    if (this.#end !== null) return
    this.#end = end
    clearInterval(this.#watcher)
    for (const finish of [...this.#calls]) finish(end)
    this.#session.destroy()
  }
}

type Finish = ((end: GeyserEnd) => void) & { isDone: boolean }

/** Calls through once; whoever wants to know asks `isDone`. */
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

const lost: GeyserEnd = { kind: 'connection', code: grpcUnknown, details: '' }
const noMessages: GeyserEnd = { kind: 'broken', code: grpcUnknown, details: 'no gRPC messages' }

function notAnswered(end: GeyserEnd): Outcome<never> {
  return refuse('unavailable', 'upstream', 'the node did not answer', { data: end })
}

/** The code alone: the message of a socket's error names the address. */
function connectionEnd(error: Error): GeyserEnd {
  const { code } = error as NodeJS.ErrnoException
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
