// The gateway's end of results: a Unix socket in the data folder on which query processes send
// their bytes, and the buffer of each result at the pace of its reader.
//
// A connection that sends the secret of this start may send bytes for tickets; a ticket is random,
// is issued for one query and is known only to the process that runs it. Bytes of a ticket that is
// over are dropped. While a reader is slow its connection is paused: a process sends one result at
// a time, and waits.
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { createServer, type Server, type Socket } from 'node:net'
import { resolve } from 'node:path'
import { listenAtPath } from '../../base/transport/unix-socket.ts'
import { queriesMax, queryProcesses } from '../config.ts'
import type { ResultAddress } from './protocol.ts'
import { pieceHeadBytes, secretBytes, ticketBytes } from './result-connection.ts'

/** Processes of two programs, while one replaces the other; a server's results have one each. */
const connectionsMax = queriesMax + 2 * queryProcesses.processesMax

export class ResultSocket {
  readonly address: ResultAddress
  readonly #secret: Buffer
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  readonly #results = new Map<string, ResultBytes>()

  private constructor(path: string) {
    this.#secret = randomBytes(secretBytes)
    // Its processes have other working directories.
    this.address = { path: resolve(path), secret: this.#secret.toString('hex') }
    this.#server = createServer((socket) => this.#connected(socket))
    this.#server.maxConnections = connectionsMax
  }

  static async open(path: string): Promise<ResultSocket> {
    const made = new ResultSocket(path)
    await listenAtPath(made.#server, path, 'result-socket')
    // A connection that cannot be accepted (no file descriptors) is lost; the listener stays open.
    made.#server.on('error', () => {})
    return made
  }

  /** A new ticket, and what arrives under it until `forget`. */
  expect(onPace: (isSlow: boolean) => void): { ticket: string; bytes: ResultBytes } {
    const ticket = randomBytes(ticketBytes).toString('hex')
    const bytes = new ResultBytes(onPace)
    this.#results.set(ticket, bytes)
    return { ticket, bytes }
  }

  forget(ticket: string): void {
    this.#results.get(ticket)?.discard()
    this.#results.delete(ticket)
  }

  stop(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve())
      for (const socket of this.#sockets) socket.destroy()
    })
  }

  #connected(socket: Socket): void {
    this.#sockets.add(socket)
    const head = Buffer.alloc(Math.max(secretBytes, pieceHeadBytes))
    let wanted = secretBytes
    let filled = 0
    /** Bytes of the piece that have not arrived. */
    let left = 0
    let into: ResultBytes | null = null
    const headed = () => {
      if (wanted === secretBytes) {
        wanted = pieceHeadBytes
        if (timingSafeEqual(head.subarray(0, secretBytes), this.#secret)) socket.write('\n')
        else socket.destroy()
        return
      }
      left = head.readUInt32LE(ticketBytes)
      into = this.#results.get(head.toString('hex', 0, ticketBytes)) ?? null
    }
    socket.on('data', (chunk: Buffer) => {
      for (let at = 0; at < chunk.length && !socket.destroyed; ) {
        const length = Math.min(left > 0 ? left : wanted - filled, chunk.length - at)
        const part = chunk.subarray(at, at + length)
        at += length
        if (left > 0) {
          left -= length
          into?.take(part, socket)
        } else {
          part.copy(head, filled)
          filled = (filled + length) % wanted
          if (filled === 0) headed()
        }
      }
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      this.#sockets.delete(socket)
      into?.end()
    })
  }
}

/** Most bytes of a result that wait for its reader; what is on the way at its end comes on top. */
const bufferedBytesMax = 256 * 1024
/** A reader that blocks for less is not reported: the clock of queries ticks no faster. */
const slowMs = 20

export class ResultBytes {
  readonly #onPace: (isSlow: boolean) => void
  #source: Socket | null = null
  #chunks: Uint8Array[] = []
  #buffered = 0
  /** Bytes of this result received so far. */
  received = 0
  /** Bytes of the whole result, once known. */
  #total: number | null = null
  #isDiscarding = false
  #isOver = false
  #pace: NodeJS.Timeout | 'slow' | null = null
  #waiting: (() => void)[] = []

  constructor(onPace: (isSlow: boolean) => void) {
    this.#onPace = onPace
  }

  take(chunk: Uint8Array, source: Socket): void {
    this.received += chunk.length
    if (this.#isDiscarding) return
    this.#source = source
    this.#chunks.push(chunk)
    this.#buffered += chunk.length
    // The process of a result that is complete runs the next query: it must not wait.
    if (this.#buffered >= bufferedBytesMax && this.#total === null) this.#pause(source)
    this.#wake()
  }

  /** Sets the size of the whole result. */
  expect(total: number): void {
    this.#total = total
    this.#resume()
    this.#wake()
  }

  /** The reader is gone: what is left is dropped. */
  discard(): void {
    this.#isDiscarding = true
    this.#chunks = []
    this.#buffered = 0
    this.#resume()
    this.#wake()
  }

  /** The connection is gone: no more bytes follow. */
  end(): void {
    this.#isOver = true
    this.#wake()
  }

  /** True when all bytes of the result were received. */
  get isWhole(): boolean {
    return this.#total !== null && this.received >= this.#total
  }

  /** Resolves at the next change: bytes, the total, or the end. */
  change(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  /** The next bytes; null when the result is at its end. */
  async next(): Promise<Uint8Array | null> {
    for (;;) {
      const chunk = this.#chunks.shift()
      if (chunk !== undefined) {
        this.#buffered -= chunk.length
        if (this.#buffered < bufferedBytesMax) this.#resume()
        return chunk
      }
      if (this.isWhole || this.#isOver || this.#isDiscarding) return null
      await this.change()
    }
  }

  #pause(source: Socket): void {
    source.pause()
    this.#pace ??= setTimeout(() => {
      this.#pace = 'slow'
      this.#onPace(true)
    }, slowMs)
  }

  #resume(): void {
    if (this.#pace === null) return
    if (this.#pace === 'slow') this.#onPace(false)
    else clearTimeout(this.#pace)
    this.#pace = null
    this.#source?.resume()
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake()
  }
}
