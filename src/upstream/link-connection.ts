// One connection to a node: writes a request, reads its answer, is free again. Thread: main.
// Used by node-link.ts alone. All plain connections of a node read into one buffer, since what was
// read is taken out before the next read: that costs a third of what a stream of Node does, and
// many connections cost no more memory than one. With TLS there are only streams.
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { AnswerParser, type AnswerSink } from './answer-parser.ts'
import type { AnswerHeaders } from './node-call.ts'

/** Less than this between two looks is no progress. */
const lookBytesMin = 1024

/** Where a node is, taken from its address once. */
export interface LinkTarget {
  readonly isTls: boolean
  readonly host: string
  readonly port: number
  readonly ca?: Buffer
  readonly readBuffer: Buffer
}

/** Whose answer the connection is reading. */
export interface LinkUser {
  onHead(status: number, headers: AnswerHeaders): void
  onData(chunk: Buffer): void
  /** The answer is whole; the connection is free, or ends by itself. */
  onEnd(): void
  /** The connection is gone before that, or what came was no HTTP. */
  onGone(): void
}

export interface LinkOwner {
  /** It may carry another request. */
  onFree(connection: LinkConnection): void
  onClosed(connection: LinkConnection): void
}

export class LinkConnection implements AnswerSink {
  isPaused = false
  isConnected = false
  /** Looks of the owner since it last did anything worth the name. */
  quietLooks = 0
  /** Read since the last look. */
  #lookBytes = 0
  readonly #owner: LinkOwner
  readonly #socket: Socket
  readonly #parser = new AnswerParser(this)
  #user: LinkUser | null = null
  #rest: Buffer | null = null
  #isOver = false

  constructor(target: LinkTarget, owner: LinkOwner) {
    this.#owner = owner
    this.#socket = this.#open(target)
    this.#socket.setNoDelay(true)
    // What it was is told by where it happened; `close` follows.
    this.#socket.on('error', () => {})
    this.#socket.on('end', () => this.#ended())
    this.#socket.on('close', () => this.#closed())
  }

  get isIdle(): boolean {
    return this.#user === null
  }

  /** Whether anything of the answer came. */
  get hasBegun(): boolean {
    return this.#parser.state !== 'head'
  }

  /** One at a time; before it is connected, the bytes wait in the socket. */
  send(request: string | Uint8Array, user: LinkUser): void {
    this.#user = user
    this.quietLooks = 0
    this.#parser.reset()
    this.#socket.write(request, 'latin1')
  }

  pause(): void {
    this.isPaused = true
    this.#socket.pause()
  }

  resume(): void {
    if (!this.isPaused || this.#isOver) return
    this.isPaused = false
    const rest = this.#rest
    this.#rest = null
    if (rest !== null) this.#read(rest)
    if (!this.isPaused && !this.#isOver) this.#socket.resume()
  }

  /** Ends it, and says so to whoever waits. */
  end(): void {
    this.#fail()
  }

  /** Ends it; its user hears nothing any more. */
  destroy(): void {
    this.#user = null
    this.#isOver = true
    this.#socket.destroy()
  }

  onHead(status: number, headers: AnswerHeaders): void {
    this.quietLooks = 0
    this.#user?.onHead(status, headers)
  }

  onData(chunk: Buffer): void {
    this.#user?.onData(chunk)
  }

  #open({ isTls, host, port, readBuffer: buffer, ...trust }: LinkTarget): Socket {
    if (isTls) {
      const servername = /^[\d.]+$|:/.test(host) ? '' : host
      const socket = connectTls({ host, port, servername, ALPNProtocols: ['http/1.1'], ...trust })
      socket.on('data', (bytes) => this.#read(bytes))
      socket.on('secureConnect', () => this.#connected())
      return socket
    }
    const callback = (count: number) => {
      this.#read(buffer.subarray(0, count))
      return !this.isPaused
    }
    const socket = connect({ host, port, onread: { buffer, callback } })
    socket.on('connect', () => this.#connected())
    return socket
  }

  #connected(): void {
    this.isConnected = true
  }

  /** Tells for how many looks it is quiet: a body that only drips is. */
  look(): number {
    this.quietLooks = this.isPaused ? 0 : this.quietLooks + 1
    this.#lookBytes = 0
    return this.quietLooks
  }

  #read(bytes: Buffer): void {
    this.#lookBytes += bytes.length
    if (this.#lookBytes >= lookBytesMin) this.quietLooks = 0
    if (this.#user === null) {
      // A node that speaks without being asked is out of step.
      this.destroy()
      return
    }
    const taken = this.#parser.feed(bytes)
    const { state } = this.#parser
    if (state === 'done') this.#answered(taken === bytes.length)
    else if (state === 'broken') this.#fail()
    // A pause in the middle: the rest is in a buffer that is used again.
    else if (taken < bytes.length) this.#rest = Buffer.from(bytes.subarray(taken))
  }

  #answered(isAll: boolean): void {
    this.quietLooks = 0
    const user = this.#user
    this.#user = null
    if (isAll && this.#parser.isReusable && !this.#isOver) {
      // Paused with its last bytes: the next answer must not wait for a resume that never comes.
      if (this.isPaused) {
        this.isPaused = false
        this.#socket.resume()
      }
      this.#owner.onFree(this)
    } else this.destroy()
    user?.onEnd()
  }

  #ended(): void {
    this.#parser.finish()
    if (this.#user !== null && this.#parser.state === 'done') this.#answered(false)
  }

  #closed(): void {
    this.#isOver = true
    this.#owner.onClosed(this)
    this.#fail()
  }

  #fail(): void {
    const user = this.#user
    this.destroy()
    user?.onGone()
  }
}
