// Unary gRPC calls over HTTP/2: many at once on each connection. Thread: load.
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2'
import { framed } from '../base/transport/grpc-stream.ts'
import { type Driver, type DriverEvents, type DriverTarget, probeProblem } from './driver.ts'
import { Lifeline } from './lifeline.ts'

/** Calls at once on a connection; servers allow at least 100 (RFC 9113, 6.5.2). */
const callsPerConnection = 100
const probeTicket = -2
const probeMsMax = 5_000
const service = '/geyser.Geyser/'
const grpcOk = '0'

interface GrpcCall {
  readonly path: string
  readonly message: Buffer
}

interface Connection {
  session: ClientHttp2Session | null
  isOpen: boolean
  readonly streams: Map<number, ClientHttp2Stream>
}

export class GrpcDriver implements Driver {
  readonly poll = null
  readonly notifications = 0
  readonly policy = null
  readonly #target: DriverTarget
  readonly #events: DriverEvents
  readonly #calls: readonly GrpcCall[]
  readonly #connections: Connection[] = []
  readonly #lifeline = new Lifeline()
  #free = 0
  #next = 0
  #probed: ((code: string) => void) | null = null

  constructor(target: DriverTarget, events: DriverEvents) {
    this.#target = target
    this.#events = events
    this.#calls = target.calls.map(callOf)
  }

  get reconnects(): number {
    return this.#lifeline.reconnects
  }

  async open(): Promise<string | null> {
    for (let index = 0; index < this.#target.connections; index += 1) {
      const connection = { session: null, isOpen: false, streams: new Map() }
      this.#connections.push(connection)
      this.#connect(connection)
      if (index > 0) continue
      const problem = (await this.#lifeline.opened(1)) ?? (await this.#probe())
      if (problem !== null) return problem
    }
    return this.#lifeline.opened(this.#target.connections)
  }

  isFree(): boolean {
    return this.#free > 0
  }

  send(call: number, ticket: number): void {
    const connection = this.#pick()
    const { path, message } = this.#calls[call]!
    const { token } = this.#target
    const stream = connection.session!.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...(token === null ? {} : { 'x-token': token }),
    })
    connection.streams.set(ticket, stream)
    this.#free -= 1
    let code = 'closed'
    const observe = (headers: Readonly<Record<string, unknown>>) => {
      const { 'grpc-status': status } = headers
      if (status !== undefined) code = status === grpcOk ? '' : `grpc ${status}`
      else if (headers[':status'] !== 200) code = `HTTP ${headers[':status']}`
    }
    stream.on('response', observe)
    stream.on('trailers', observe)
    stream.on('error', () => {})
    stream.on('close', () => this.#finish(connection, ticket, code))
    stream.resume()
    stream.end(message)
  }

  abandon(ticket: number): void {
    for (const { streams, isOpen } of this.#connections) {
      const stream = streams.get(ticket)
      if (stream === undefined) continue
      streams.delete(ticket)
      if (isOpen) this.#free += 1
      stream.close()
    }
  }

  failure(nowMs: number): string | null {
    return this.#lifeline.failure(nowMs)
  }

  close(): void {
    this.#lifeline.close()
    for (const { session } of this.#connections) session?.destroy()
  }

  async #probe(): Promise<string | null> {
    const code = await new Promise<string>((resolve) => {
      this.#probed = resolve
      setTimeout(() => resolve('timeout'), probeMsMax).unref()
      this.send(0, probeTicket)
    })
    return probeProblem(code, this.#target)
  }

  #connect(connection: Connection): void {
    const session = connect(new URL(this.#target.url).origin)
    connection.session = session
    let reason = 'it closed the connection'
    let wasOpen = false
    const timer = setTimeout(() => {
      reason = 'no connection within the time'
      session.destroy()
    }, this.#target.connectMsMax)
    session.once('connect', () => {
      clearTimeout(timer)
      wasOpen = true
      connection.isOpen = true
      this.#free += callsPerConnection
      this.#lifeline.gained()
      this.#events.free()
    })
    // The streams end by themselves; no new one starts on a connection that goes away.
    session.on('goaway', () => {
      this.#retire(connection)
      session.close()
    })
    session.on('error', (error: NodeJS.ErrnoException) => {
      reason = error.code ?? error.message
    })
    session.once('close', () => {
      clearTimeout(timer)
      this.#retire(connection)
      for (const ticket of [...connection.streams.keys()])
        this.#finish(connection, ticket, 'closed')
      this.#lifeline.lost(wasOpen, reason, () => this.#connect(connection))
    })
  }

  /** No call is started on it any more. */
  #retire(connection: Connection): void {
    if (!connection.isOpen) return
    connection.isOpen = false
    this.#free -= callsPerConnection - connection.streams.size
  }

  /** The next connection in turn with a free stream; only while one is free. */
  #pick(): Connection {
    for (;;) {
      const connection = this.#connections[this.#next % this.#connections.length]!
      this.#next += 1
      if (connection.isOpen && connection.streams.size < callsPerConnection) return connection
    }
  }

  #finish(connection: Connection, ticket: number, code: string): void {
    if (!connection.streams.delete(ticket)) return
    if (connection.isOpen) this.#free += 1
    if (ticket === probeTicket) this.#probed?.(code)
    else this.#events.done(ticket, code)
    if (connection.isOpen) this.#events.free()
  }
}

/** `GetSlot`, `/package.Service/Method`, or `{"method":…,"body":"<base64>"}` with a message. */
function callOf(text: string): GrpcCall {
  const { method, body = '' } = text.startsWith('{')
    ? (JSON.parse(text) as { method: string; body?: string })
    : { method: text }
  const payload = Buffer.from(body, 'base64')
  const path = method.startsWith('/') ? method : `${service}${method}`
  return { path, message: framed(payload) }
}
