// Sends results to the gateway over its Unix socket. Thread: main of the process that has the
// bytes: a query process, or the query program where a server computes them.
//
//   connection:  secret, 32 bytes | piece | piece | …     one byte back: it is accepted
//   piece:       ticket, 16 bytes | length u32 LE | bytes of that result
import { connect, type Socket } from 'node:net'
import { Fault } from '../../base/errors.ts'
import { reachable } from '../../base/transport/unix-socket.ts'
import type { ResultAddress } from './protocol.ts'

export const secretBytes = 32
export const ticketBytes = 16
export const pieceHeadBytes = ticketBytes + 4
const none = Buffer.alloc(0)

/** Destination of bytes. `write` resolves when more can be written, or when `wake` was called. */
export interface ByteSink {
  write(bytes: Uint8Array): Promise<void>
  /** Resolves when nothing waits in this process, which may be ended then; or by `wake`. */
  flushed(): Promise<void>
  wake(): void
}

export class ResultConnection {
  readonly #socket: Socket
  #waiting: (() => void) | null = null

  private constructor(socket: Socket, onGone: () => void) {
    this.#socket = socket
    socket.on('drain', () => this.#wake())
    socket.on('close', () => {
      this.#wake()
      onGone()
    })
  }

  /** Rejects when the gateway does not accept it. `onGone`: it no longer reads. */
  static open(
    { path, secret }: ResultAddress,
    onGone: () => void = () => {},
  ): Promise<ResultConnection> {
    return new Promise((resolve, reject) => {
      const socket = connect(reachable(path))
      const refused = () => reject(new Fault('result-socket', 'the gateway takes no results'))
      socket.on('error', () => {})
      socket.once('close', refused)
      socket.write(Buffer.from(secret, 'hex'))
      socket.once('data', () => {
        socket.off('close', refused)
        resolve(new ResultConnection(socket, onGone))
      })
    })
  }

  get isGone(): boolean {
    return this.#socket.destroyed
  }

  /** Results are sent one after the other. */
  sinkOf(ticket: string): ByteSink {
    const name = Buffer.from(ticket, 'hex')
    return {
      write: (bytes) => this.#write(name, bytes),
      flushed: () => this.#flushed(),
      wake: () => this.#wake(),
    }
  }

  /** What was written still arrives. */
  end(): void {
    this.#socket.end()
  }

  #write(ticket: Buffer, bytes: Uint8Array): Promise<void> {
    if (this.isGone || bytes.length === 0) return Promise.resolve()
    const head = Buffer.allocUnsafe(pieceHeadBytes)
    ticket.copy(head)
    head.writeUInt32LE(bytes.length, ticketBytes)
    this.#socket.cork()
    this.#socket.write(head)
    const isFlowing = this.#socket.write(bytes)
    this.#socket.uncork()
    if (isFlowing) return Promise.resolve()
    return new Promise((resolve) => {
      this.#waiting = resolve
    })
  }

  #flushed(): Promise<void> {
    if (this.isGone || this.#socket.writableLength === 0) return Promise.resolve()
    return new Promise((resolve) => {
      this.#waiting = resolve
      // Called after all that was written before it.
      this.#socket.write(none, () => this.#wake())
    })
  }

  #wake(): void {
    const waiting = this.#waiting
    this.#waiting = null
    waiting?.()
  }
}
