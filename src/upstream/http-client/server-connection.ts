// One connection to a server: sends a request, reads its response, is idle again.
// All plain connections of a client read into one buffer, since what was read is consumed before
// the next read: that costs a third of a Node stream, and many connections cost no more memory
// than one. TLS has streams only.
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { HttpRequest, RequestConnection } from './http-request.ts'
import { ResponseParser } from './response-parser.ts'

/** Fewer bytes than this between two checks are no progress. */
const progressBytesMin = 1024
/** In checks, one a second. Idle: shorter than the 5 s after which Node's own servers close. */
const idleChecksMax = 3
const connectChecksMax = 2
/** A body without progress for this long is given up; a paused one is not counted. */
const bodyChecksMax = 30

export interface ConnectionTarget {
  readonly isTls: boolean
  readonly host: string
  readonly port: number
  /** Replaces the certificate authorities that the machine trusts. */
  readonly ca?: Buffer
  readonly readBuffer: Buffer
}

export interface ConnectionOwner {
  /** The connection can carry another request. */
  idle(connection: ServerConnection): void
  closed(connection: ServerConnection): void
}

export class ServerConnection implements RequestConnection {
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
    this.#socket.on('end', () => this.#ended())
    this.#socket.on('close', () => this.#closed())
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

  #ended(): void {
    this.#parser.finish()
    if (this.#request === null) this.destroy()
    else if (this.#parser.state === 'done') this.#finish(this.#request, false)
  }

  #closed(): void {
    this.isClosed = true
    this.#owner.closed(this)
    this.close()
  }
}
