// Wraps Node's datagram sockets, one packet per call. Thread: any with an event loop.
// Servers and workers reach node:dgram only through this file. The fallback where batched system
// calls (udp-batch.ts) are unavailable.
import { createSocket, type Socket } from 'node:dgram'
import { isIPv6 } from 'node:net'
import { Fault, messageOf } from '../errors.ts'

export interface UdpOptions {
  readonly host: string
  /** 0 is any free port. */
  readonly port: number
  readonly bufferBytes?: number
  /** Whether several sockets share the port, each connected to another address. */
  readonly shares?: boolean
  readonly isV6Only?: boolean
}

export class UdpSocket {
  readonly #socket: Socket

  private constructor(socket: Socket) {
    this.#socket = socket
  }

  /** Opens and binds; rejects with a Fault when the address cannot be bound. */
  static async open(options: UdpOptions): Promise<UdpSocket> {
    const { host, port, bufferBytes } = options
    const isV6 = isIPv6(host)
    const socket = createSocket({
      type: isV6 ? 'udp6' : 'udp4',
      reuseAddr: options.shares ?? false,
      ipv6Only: isV6 && (options.isV6Only ?? false),
      // Literal addresses only: without this, each send would query the resolver first.
      lookup: (name, _, done) => done(null, name, isIPv6(name) ? 6 : 4),
    })
    await new Promise<void>((resolve, reject) => {
      socket.once('error', (cause) => {
        const why = `cannot listen on UDP ${host} port ${port}: ${messageOf(cause)}`
        reject(new Fault('udp-bind', why, { cause }))
      })
      socket.bind({ address: host, port }, () => resolve())
    })
    socket.removeAllListeners('error')
    if (bufferBytes !== undefined) {
      socket.setRecvBufferSize(bufferBytes)
      socket.setSendBufferSize(bufferBytes)
    }
    return new UdpSocket(socket)
  }

  get port(): number {
    return this.#socket.address().port
  }

  /** Exchanges with that address only, and gets its errors; closed where it has no route. */
  connect(host: string, port: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#socket.connect(port, host, (error?: Error) => {
        if (error === undefined) return resolve()
        this.close()
        reject(new Fault('udp-connect', messageOf(error), { cause: error }))
      })
    })
  }

  onMessage(take: (payload: Uint8Array, host: string, port: number) => void): void {
    this.#socket.on('message', (payload, { address, port }) => take(payload, address, port))
  }

  /** Errors that belong to no single send, such as port unreachable. */
  onError(take: (code: string) => void): void {
    this.#socket.on('error', (error: NodeJS.ErrnoException) => take(error.code ?? error.message))
  }

  send(payload: Uint8Array, done?: (code: string | null) => void): void {
    this.#socket.send(payload, callbackOf(done))
  }

  sendTo(
    payload: Uint8Array,
    host: string,
    port: number,
    done?: (code: string | null) => void,
  ): void {
    this.#socket.send(payload, port, host, callbackOf(done))
  }

  close(): void {
    this.#socket.close()
  }
}

type SendCallback = (error: Error | null) => void

function callbackOf(done: ((code: string | null) => void) | undefined): SendCallback {
  if (done === undefined) return ignore
  return (error) => done(error === null ? null : ((error as NodeJS.ErrnoException).code ?? '?'))
}

/** A datagram that cannot be sent is lost like any other; without a callback Node would throw. */
function ignore(): void {}
