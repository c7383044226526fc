// Serves WebSockets over the native server and handles its pitfalls for every product.
//
//   upgrade: head -> limit -> admit -> connections per address 429 -> route.upgrade -> 101
//            -> open
//   then message | drain | close, each in a try: a bug closes its own socket with 1011
//
// A product passes `SocketRoute`s. Data passed to `message` is borrowed until the call
// returns. `Socket` may be kept and used at any time: after the close it does nothing. Topics are
// published through `Sockets.publish`, which reaches the sockets of every TLS generation.
// Inbound messages over the limit get 1009 and silent peers are closed, because the native server
// would drop them without a close code. Backpressure is the product's job: check `unsentBytes`
// after a send or publish, wait for `drain`, call `end(1013)` when it is too much; the native
// server itself discards only at twice `unsentBytesMax`. A socket that is ended keeps its permits
// until the peer has read what is unsent: the native server reports the close of one with a backlog
// and keeps that backlog for minutes.
import type { Clock } from '../clock.ts'
import { type Log, LogThrottle } from '../telemetry/log.ts'
import type { Addresses } from './address.ts'
import { add } from './connections.ts'
import { CLOSE_BUG, CLOSE_GOING_AWAY, CLOSE_TOO_LONG, Reply, statusLine } from './reply.ts'
import { Request } from './request.ts'
import {
  type App,
  type NativeRequest,
  type NativeResponse,
  type NativeSocket,
  nativeText,
  type UpgradeContext,
} from './uws.ts'

interface Upgrade<S> {
  /** The product's own state of the connection. */
  readonly state: S
  /** One of the subprotocols the client offered (`offeredProtocols`), or '' for none. */
  readonly protocol: string
}

interface Timing {
  /** Interval of pings. */
  readonly pingMs: number
  /** Timeout after which a peer that sent nothing, not even a pong, is closed. */
  readonly silenceMsMax: number
}

export interface SocketRoute<C, S> extends Timing {
  readonly path: string
  readonly inboundBytesMax: number
  readonly unsentBytesMax: number
  /** Open sockets per address (IPv6: per /64); 0 is no limit. */
  readonly perAddressMax: number
  /** Decides on the handshake; a Reply refuses it. `context` is what `admit` returned. */
  upgrade(request: Request, context: C): Upgrade<S> | Reply | Promise<Reply>
  open(socket: Socket<S>): void
  message(socket: Socket<S>, data: Buffer, isBinary: boolean): void
  /** The peer sent a ping frame; the pong is sent automatically. */
  ping?(socket: Socket<S>): void
  drain?(socket: Socket<S>): void
  /** The socket was ended, by either side: nothing more is sent or received. */
  close(socket: Socket<S>, code: number): void
  /** After `close`: nothing of it is in memory any more, and its permits can be returned. */
  release?(socket: Socket<S>): void
}

interface SocketParts<C> {
  readonly addresses: Addresses
  readonly clock: Clock
  readonly log: Log
  readonly wants: ReadonlySet<string>
  limit(request: Request): Reply | Promise<Reply> | null
  admit(request: Request): C | Reply
  error(status: number, message: string, request: Request | null): Reply
  /** A connection that became a WebSocket closed: the native server reports only the others. */
  closed(): void
}

interface UserData {
  readonly socket: Socket<unknown>
}

// The native server drops a longer message without a close code, so its limit is far above any
// route's. A socket may buffer that much; the number of sockets per address is limited too.
const NATIVE_INBOUND_BYTES_MAX = 1024 * 1024
/** Beyond so many times `unsentBytesMax` what is sent is discarded. */
export const NATIVE_UNSENT_FACTOR = 2
// Closes sockets that no ping reaches any more, such as a closed one whose peer never reads.
const NATIVE_IDLE_SECS = 120
const TICK_MS = 1_000
/** Ticks for the peer to read what is unsent before the close frame. */
const ENDING_TICKS_MAX = 10

export class Sockets<C> {
  readonly #routes: readonly SocketRoute<C, unknown>[]
  readonly #parts: SocketParts<C>
  readonly #apps = new Map<App, number>()
  readonly #open = new Set<Socket<unknown>>()
  readonly #perAddress = new Map<string, number>()
  readonly #ticker: NodeJS.Timeout
  readonly #throttle = new LogThrottle()
  #isStopping = false

  constructor(routes: readonly SocketRoute<C, unknown>[], parts: SocketParts<C>) {
    this.#routes = routes
    this.#parts = parts
    this.#ticker = setInterval(() => this.#tick(), TICK_MS).unref()
  }

  get open(): ReadonlySet<Socket<unknown>> {
    return this.#open
  }

  /** Open sockets of one TLS generation. */
  openOn(app: App): number {
    return this.#apps.get(app) ?? 0
  }

  bind(app: App): void {
    if (this.#routes.length === 0) return
    this.#apps.set(app, 0)
    for (const route of this.#routes) this.#bindRoute(app, route)
  }

  forget(app: App): void {
    this.#apps.delete(app)
  }

  /** Sends one message to every subscriber of a topic; the bytes are copied once per socket. */
  publish(topic: string, message: string | Uint8Array, isBinary = false): void {
    const bytes = nativeText(message)
    for (const [app, open] of this.#apps) if (open > 0) app.publish(topic, bytes, isBinary)
  }

  /** Refuses new sockets and ends the open ones with 1001. */
  stop(): void {
    this.#isStopping = true
    clearInterval(this.#ticker)
    for (const socket of this.#open) socket.end(CLOSE_GOING_AWAY, 'the server is stopping')
  }

  #bindRoute(app: App, route: SocketRoute<C, unknown>): void {
    app.ws<UserData>(route.path, {
      idleTimeout: NATIVE_IDLE_SECS,
      sendPingsAutomatically: false,
      maxPayloadLength: NATIVE_INBOUND_BYTES_MAX,
      maxBackpressure: route.unsentBytesMax * NATIVE_UNSENT_FACTOR,
      upgrade: (response, native, context) => this.#upgrade(route, response, native, context),
      open: (native) => this.#opened(app, route, native),
      message: (native, data, isBinary) => {
        const { socket } = native.getUserData()
        socket.heardMs = this.#parts.clock.monotonicMs()
        if (data.byteLength > route.inboundBytesMax)
          socket.end(CLOSE_TOO_LONG, `a message has at most ${route.inboundBytesMax} bytes`)
        else if (socket.isOpen)
          this.#guard(socket, () => route.message(socket, Buffer.from(data), isBinary))
      },
      drain: (native) => {
        const { socket } = native.getUserData()
        if (socket.isOpen) this.#guard(socket, () => route.drain?.(socket))
        else socket.finishEnd()
      },
      ping: (native) => {
        const { socket } = native.getUserData()
        socket.heardMs = this.#parts.clock.monotonicMs()
        if (socket.isOpen) this.#guard(socket, () => route.ping?.(socket))
      },
      pong: (native) => {
        native.getUserData().socket.heardMs = this.#parts.clock.monotonicMs()
      },
      close: (native, code) => this.#closed(app, route, native.getUserData().socket, code),
    })
  }

  #upgrade(
    route: SocketRoute<C, unknown>,
    response: NativeResponse,
    native: NativeRequest,
    context: UpgradeContext,
  ): void {
    let isGone = false
    response.onAborted(() => {
      isGone = true
    })
    try {
      const key = native.getHeader('sec-websocket-key')
      const extensions = native.getHeader('sec-websocket-extensions')
      const request = new Request(native, response, this.#parts, null)
      const decided = this.#decide(route, request)
      if (decided instanceof Promise) {
        const answer = (reply: Reply) => isGone || response.cork(() => refuse(response, reply))
        decided.then(answer, (error) => this.#report('WebSocket handshake failed', error))
        return
      }
      if (decided instanceof Reply) {
        refuse(response, decided)
        return
      }
      const socket = new Socket(decided, request, route, this.#parts.clock.monotonicMs())
      response.upgrade<UserData>({ socket }, key, decided.protocol, extensions, context)
    } catch (error) {
      this.#report('WebSocket handshake failed', error)
      refuse(response, this.#parts.error(500, 'internal error', null))
    }
  }

  #decide(
    route: SocketRoute<C, unknown>,
    request: Request,
  ): Upgrade<unknown> | Reply | Promise<Reply> {
    const { problem } = request
    if (problem !== null) return this.#parts.error(problem.status, problem.message, request)
    if (this.#isStopping) return this.#parts.error(503, 'the server is stopping', request)
    const limited = this.#parts.limit(request)
    if (limited !== null) return limited
    const context = this.#parts.admit(request)
    if (context instanceof Reply) return context
    const open = this.#perAddress.get(request.addressKey) ?? 0
    if (route.perAddressMax > 0 && open >= route.perAddressMax)
      return this.#parts.error(429, 'too many connections from this address', request)
    return route.upgrade(request, context)
  }

  #opened(app: App, route: SocketRoute<C, unknown>, native: NativeSocket<UserData>): void {
    const { socket } = native.getUserData()
    socket.attach(native, (code) => this.#guard(socket, () => route.close(socket, code)))
    this.#open.add(socket)
    this.#apps.set(app, this.openOn(app) + 1)
    add(this.#perAddress, socket.addressKey, 1)
    this.#guard(socket, () => route.open(socket))
    if (this.#isStopping) socket.end(CLOSE_GOING_AWAY, 'the server is stopping')
  }

  #closed(app: App, route: SocketRoute<C, unknown>, socket: Socket<unknown>, code: number): void {
    socket.detach(code)
    this.#parts.closed()
    this.#open.delete(socket)
    this.#apps.set(app, this.openOn(app) - 1)
    add(this.#perAddress, socket.addressKey, -1)
    this.#guard(socket, () => route.release?.(socket))
  }

  #report(what: string, error: unknown): void {
    if (this.#throttle.allows(what, this.#parts.clock.monotonicMs()))
      this.#parts.log.error(what, { reason: String(error) })
  }

  #tick(): void {
    const nowMs = this.#parts.clock.monotonicMs()
    for (const socket of this.#open) socket.tick(nowMs)
  }

  #guard(socket: Socket<unknown>, run: () => void): void {
    try {
      run()
    } catch (error) {
      this.#report('WebSocket handler failed', error)
      socket.end(CLOSE_BUG, 'internal error')
    }
  }
}

/** The subprotocols a client offers, in its order of preference. For use in `upgrade`. */
export function offeredProtocols(request: Request): string[] {
  const header = request.header('sec-websocket-protocol')
  return header === '' ? [] : header.split(',').map((name) => name.trim())
}

function refuse(response: NativeResponse, reply: Reply): void {
  const { status, head, body, isLast } = reply
  response.writeStatus(statusLine(status))
  response.writeHeader(head.name, nativeText(isLast ? head.lastValue : head.value))
  response.end(nativeText(typeof body === 'string' ? body : ''), isLast)
}

/** Outcome of a send: written to the kernel, waiting in our memory (backpressure), or dropped. */
type Sent = 'sent' | 'queued' | 'dropped'

/** The native socket throws when it is used after its close; this one then does nothing. */
export class Socket<S> {
  readonly state: S
  readonly protocol: string
  /** The client's address, through trusted proxies. */
  readonly address: string
  /** Key under which limits count it. */
  readonly addressKey: string
  readonly path: string
  /** When the peer last sent anything. Set by websocket.ts. */
  heardMs: number
  readonly #timing: Timing
  #pingedMs: number
  #native: NativeSocket<unknown> | null = null
  /** The native socket once it was ended while something is unsent, and its close frame. */
  #ending: NativeSocket<unknown> | null = null
  #lastFrame: [code: number, reason: string | Uint8Array] = [0, '']
  #endingTicks = 0
  #onEnd: (code: number) => void = () => {}

  constructor(decided: Upgrade<S>, request: Request, timing: Timing, nowMs: number) {
    this.state = decided.state
    this.protocol = decided.protocol
    this.#timing = timing
    this.address = request.address
    this.addressKey = request.addressKey
    this.path = request.path
    this.heardMs = nowMs
    this.#pingedMs = nowMs
  }

  get isOpen(): boolean {
    return this.#native !== null
  }

  /** Bytes that wait in our memory; the kernel buffers 3 to 4 MB before this grows. */
  get unsentBytes(): number {
    return this.#native?.getBufferedAmount() ?? 0
  }

  send(message: string | Uint8Array, isBinary = false): Sent {
    const status = this.#native?.send(nativeText(message), isBinary) ?? 2
    return status === 1 ? 'sent' : status === 0 ? 'queued' : 'dropped'
  }

  /** Sends several messages in one write. */
  batch(send: () => void): void {
    this.#native?.cork(send)
  }

  subscribe(topic: string): void {
    this.#native?.subscribe(topic)
  }

  unsubscribe(topic: string): void {
    this.#native?.unsubscribe(topic)
  }

  /** Closes with a code; the route's `close` runs before this returns. */
  end(code: number, reason: string): void {
    const native = this.#native
    if (native === null) return
    this.#lastFrame = [code, nativeText(reason)]
    if (native.getBufferedAmount() === 0) {
      native.end(...this.#lastFrame)
      return
    }
    for (const topic of native.getTopics()) native.unsubscribe(topic)
    this.#native = null
    this.#ending = native
    this.#onEnd(code)
  }

  // The methods below are for websocket.ts only.

  attach(native: NativeSocket<unknown>, onEnd: (code: number) => void): void {
    this.#native = native
    this.#onEnd = onEnd
  }

  detach(code: number): void {
    const wasOpen = this.isOpen
    this.#native = this.#ending = null
    if (wasOpen) this.#onEnd(code)
  }

  /** Sends the close frame once the peer has read everything before it. */
  finishEnd(): void {
    if (this.#ending?.getBufferedAmount() === 0) this.#ending.end(...this.#lastFrame)
  }

  /** Pings when it is due; closes, without a close frame, a peer that is silent or that does not
   *  read for longer than its timeout. */
  tick(nowMs: number): void {
    if (this.#ending !== null) {
      if (++this.#endingTicks > ENDING_TICKS_MAX) this.#ending.close()
    } else if (nowMs - this.heardMs >= this.#timing.silenceMsMax) this.#native?.close()
    else if (nowMs - this.#pingedMs >= this.#timing.pingMs) {
      this.#pingedMs = nowMs
      this.#native?.ping()
    }
  }
}
