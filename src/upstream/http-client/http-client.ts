// HTTP/1.1 client for the JSON-RPC of one node: keep-alive connections, bounded, one request at a
// time on each. The address may contain a provider's key: no result of this module
// contains it. It is our own because a general client costs more than the rest of a proxied call.
//
//   request ─► idle connection ─► sent ─► response ─► idle ─► next in the queue
//          ├─► a new one, up to connectionsMax ─┘
//          └─► the queue, up to queuedMax; else `busy`
import { unescape as percentDecode } from 'node:querystring'
import type { Clock } from '../../base/clock.ts'
import { CHUNK_BYTES } from './body-stream.ts'
import { HttpRequest, type RequestOptions } from './http-request.ts'
import {
  type ConnectionOwner,
  type ConnectionTarget,
  ServerConnection,
} from './server-connection.ts'

const connectionsMax = 256
const queuedMax = 3_840
const checkEveryMs = 1_000

export interface HttpClientOptions {
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
    this.#timer = setInterval(() => this.#check(), checkEveryMs).unref()
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

  #check(): void {
    for (const connection of [...this.#connections]) if (connection.isStale()) connection.close()
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
