// HTTP/1.1 client for the JSON-RPC of one node: keep-alive connections, bounded, one request at a
// time on each. The address may contain a provider's key: no result of this module
// contains it. It is our own because a general client costs more than the rest of a proxied call.
//
//   request ─► idle connection ─► sent ─► response ─► idle ─► next in the queue
//          ├─► a new one, up to connectionsMax ─┘
//          └─► the queue, up to queuedMax; else `busy`
import { connect, type Socket } from 'node:net'
import { unescape as percentDecode } from 'node:querystring'
import { connect as connectTls } from 'node:tls'
import type { Clock } from '../../base/clock.ts'
import { CHUNK_BYTES } from './body-stream.ts'
import {
  HttpRequest,
  type RequestConnection,
  type RequestOptions,
  ResponseParser,
} from './http-request.ts'

const connectionsMax = 256
const queuedMax = 3_840
const checkEveryMs = 1_000

interface HttpClientOptions {
  readonly clock: Clock
  /** Sent as x-token; '' for none. */
  readonly xToken?: string
  /** Replaces the certificate authorities that the machine trusts. */
  readonly ca?: Buffer
}

export class HttpClient implements ConnectionOwner {
  readonly #target: ConnectionTarget
  readonly #clock: Clock
  readonly #head: string
  readonly #connections = new Set<ServerConnection>()
  /** The last one that became idle is used first, so that the others time out. */
  readonly #idle: ServerConnection[] = []
  #queue: HttpRequest[] = []
  readonly #timer: NodeJS.Timeout
  #isStopped = false

  constructor(address: string, { clock, xToken = '', ca }: HttpClientOptions) {
    const url = new URL(address)
    const isTls = url.protocol === 'https:'
    const port = url.port === '' ? (isTls ? 443 : 80) : Number(url.port)
    const host = url.hostname.replace(/^\[|\]$/g, '')
    const readBuffer = Buffer.allocUnsafeSlow(CHUNK_BYTES)
    this.#target = { isTls, port, host, readBuffer, ...(ca === undefined ? {} : { ca }) }
    this.#clock = clock
    this.#head = headOf(url, xToken)
    this.#timer = setInterval(() => {
      for (const connection of [...this.#connections]) if (connection.isStale()) connection.close()
    }, checkEveryMs).unref()
  }

  /** Whether a connection is open. */
  get isConnected(): boolean {
    for (const { isConnected, isClosed } of this.#connections)
      if (isConnected && !isClosed) return true
    return false
  }

  /** Posts a JSON body. The response never rejects. */
  request(body: string | Uint8Array, options: RequestOptions): HttpRequest {
    const request = new HttpRequest(this.#bytesOf(body), options, this.#clock)
    if (this.#isStopped) request.lost('')
    else this.#assign(request)
    return request
  }

  stop(): void {
    this.#isStopped = true
    clearInterval(this.#timer)
    for (const request of this.#queue.splice(0)) request.lost('')
    for (const connection of [...this.#connections]) connection.close()
  }

  idle(connection: ServerConnection): void {
    const next = this.#next()
    if (next === null) this.#idle.push(connection)
    else connection.send(next)
  }

  closed(connection: ServerConnection): void {
    this.#connections.delete(connection)
    const at = this.#idle.indexOf(connection)
    if (at >= 0) this.#idle.splice(at, 1)
    const next = this.#isStopped ? null : this.#next()
    if (next !== null) this.#assign(next)
  }

  #assign(request: HttpRequest): void {
    let idle = this.#idle.pop()
    while (idle?.isClosed === true) idle = this.#idle.pop()
    if (idle !== undefined) idle.send(request)
    else if (this.#connections.size < connectionsMax) {
      const connection = new ServerConnection(this.#target, this)
      this.#connections.add(connection)
      connection.send(request)
    } else this.#enqueue(request)
  }

  #enqueue(request: HttpRequest): void {
    if (this.#queue.length >= queuedMax) this.#queue = this.#queue.filter(({ isOver }) => !isOver)
    if (this.#queue.length < queuedMax) this.#queue.push(request)
    else request.abort('busy')
  }

  #next(): HttpRequest | null {
    let next = this.#queue.shift()
    while (next?.isOver === true) next = this.#queue.shift()
    return next ?? null
  }

  #bytesOf(body: string | Uint8Array): string | Uint8Array {
    if (typeof body === 'string') {
      // Nearly every body is ASCII, which is cheaper to write than UTF-8.
      if (Buffer.byteLength(body) !== body.length) return this.#bytesOf(Buffer.from(body))
      return `${this.#head}${body.length}\r\n\r\n${body}`
    }
    const head = `${this.#head}${body.length}\r\n\r\n`
    const request = Buffer.allocUnsafe(head.length + body.length)
    request.write(head, 'latin1')
    request.set(body, head.length)
    return request
  }
}

/** Everything of a request up to the length of its body. */
function headOf({ pathname, search, host, username, password }: URL, xToken: string): string {
  const pair = `${percentDecode(username)}:${percentDecode(password)}`
  return [
    `POST ${pathname}${search} HTTP/1.1`,
    `host: ${host}`,
    'content-type: application/json',
    ...(username === '' ? [] : [`authorization: Basic ${Buffer.from(pair).toString('base64')}`]),
    ...(xToken === '' ? [] : [`x-token: ${xToken}`]),
    'content-length: ',
  ].join('\r\n')
}

// One connection to a server: sends a request, reads its response, is idle again.
// All plain connections of a client read into one buffer, since what was read is consumed before
// the next read: that costs a third of a Node stream, and many connections cost no more memory
// than one. TLS has streams only.

/** Fewer bytes than this between two checks are no progress. */
const progressBytesMin = 1024
/** In checks, one a second. Idle: shorter than the 5 s after which Node's own servers close. */
const idleChecksMax = 3
const connectChecksMax = 2
/** A body without progress for this long is given up; a paused one is not counted. */
const bodyChecksMax = 30

interface ConnectionTarget {
  readonly isTls: boolean
  readonly host: string
  readonly port: number
  /** Replaces the certificate authorities that the machine trusts. */
  readonly ca?: Buffer
  readonly readBuffer: Buffer
}

interface ConnectionOwner {
  /** The connection can carry another request. */
  idle(connection: ServerConnection): void
  closed(connection: ServerConnection): void
}

class ServerConnection implements RequestConnection {
  isConnected = false
  isClosed = false
  readonly #owner: ConnectionOwner
  readonly #socket: Socket
  readonly #parser = new ResponseParser()
  #request: HttpRequest | null = null
  /** Read, but not parsed because of a pause. */
  #unparsed: Buffer | null = null
  #errorCode = ''
  #quietChecks = 0
  #progressBytes = 0

  constructor(target: ConnectionTarget, owner: ConnectionOwner) {
    this.#owner = owner
    this.#socket = this.#open(target)
    this.#socket.setNoDelay(true)
    // The message of an error may contain the address, its code does not; `close` follows.
    this.#socket.on('error', (error: { code?: string }) => {
      this.#errorCode = String(error.code ?? '')
    })
    this.#socket.on('end', () => {
      this.#parser.finish()
      if (this.#request === null) this.destroy()
      else if (this.#parser.state === 'done') this.#finish(this.#request, false)
    })
    this.#socket.on('close', () => {
      this.isClosed = true
      owner.closed(this)
      this.close()
    })
  }

  /** One at a time; before the connection is established, the bytes wait in the socket. */
  send(request: HttpRequest): void {
    this.#request = request
    this.#quietChecks = 0
    this.#parser.reset(request)
    request.connection = this
    this.#socket.write(request.bytes, 'latin1')
  }

  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    const unparsed = this.#unparsed
    this.#unparsed = null
    if (unparsed !== null) this.#read(unparsed)
    if (this.#request?.isPaused !== true && !this.isClosed) this.#socket.resume()
  }

  /** Ends it; its request gets no further calls. */
  destroy(): void {
    this.#request = null
    this.isClosed = true
    this.#socket.destroy()
  }

  /** Ends it, and fails its request. */
  close(): void {
    const request = this.#request
    this.destroy()
    request?.lost(this.#errorCode)
  }

  /** Called once a second. True when it is idle, connecting or without progress for too long. */
  isStale(): boolean {
    this.#quietChecks = this.#request?.isPaused === true ? 0 : this.#quietChecks + 1
    this.#progressBytes = 0
    if (this.#request === null) return this.#quietChecks > idleChecksMax
    if (!this.isConnected) return this.#quietChecks > connectChecksMax
    return this.#request.status !== 0 && this.#quietChecks > bodyChecksMax
  }

  #open({ isTls, host, port, readBuffer: buffer, ...trust }: ConnectionTarget): Socket {
    const connected = () => {
      this.isConnected = true
    }
    if (isTls) {
      const servername = /^[\d.]+$|:/.test(host) ? '' : host
      const socket = connectTls({ host, port, servername, ALPNProtocols: ['http/1.1'], ...trust })
      socket.on('data', (bytes) => this.#read(bytes))
      return socket.on('secureConnect', connected)
    }
    const callback = (count: number) => {
      this.#read(buffer.subarray(0, count))
      return this.#request?.isPaused !== true
    }
    return connect({ host, port, onread: { buffer, callback } }).on('connect', connected)
  }

  #read(bytes: Buffer): void {
    const request = this.#request
    if (request === null) {
      // A server that sends what was not requested is out of step.
      this.destroy()
      return
    }
    const wasHead = request.status === 0
    const taken = this.#parser.feed(bytes)
    this.#progressBytes += bytes.length
    if (this.#progressBytes >= progressBytesMin || (wasHead && request.status !== 0))
      this.#quietChecks = 0
    const { state } = this.#parser
    if (state === 'done') this.#finish(request, taken === bytes.length)
    else if (state === 'broken') this.close()
    // A pause in the middle: the rest is in a buffer that will be reused.
    else if (taken < bytes.length) this.#unparsed = Buffer.from(bytes.subarray(taken))
  }

  #finish(request: HttpRequest, isAll: boolean): void {
    this.#quietChecks = 0
    this.#request = null
    if (isAll && this.#parser.isReusable && !this.isClosed) {
      // Paused with its last bytes: the next response must not wait for a resume that never comes.
      if (request.isPaused) this.#socket.resume()
      this.#owner.idle(this)
    } else this.destroy()
    request.end()
  }
}
