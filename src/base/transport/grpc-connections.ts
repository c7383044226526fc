// Limits connections per address on the gRPC library's HTTP/2 servers, and reads from a call's
// headers what the library hides: duplicate credentials and accepted compressions.
// http2 joins a repeated `x-token` with a comma but silently drops a second `authorization`; only
// the raw header list still contains it, and only for a listener before the library's own. The
// servers are not public in the library: when they cannot be found, the start fails.
import type { Http2Server, ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { addressKey } from '../cidr.ts'
import { Fault } from '../errors.ts'
import { faultReport, type Log } from '../telemetry/log.ts'
import { InFlight } from './connections.ts'
import { descriptorReserve } from './descriptors.ts'
import { encodingAskedBy, type GrpcEncoding } from './grpc-encoding.ts'

export interface ConnectionLimits {
  /** Connections of one address, IPv4 /32 or IPv6 /64; one more is closed at once. */
  readonly connectionsPerAddressMax: number
  /** True for trusted proxies, which carry many clients: they are not counted. */
  isProxy(address: string): boolean
  /** Compressions of answers, where a caller asks for one. */
  readonly compression: readonly string[]
  readonly log: Log
}

export class GrpcConnections {
  readonly #repeated = new WeakSet<ServerHttp2Stream>()
  readonly #encodings = new WeakMap<ServerHttp2Stream, GrpcEncoding>()
  readonly #limits: ConnectionLimits
  readonly #open: InFlight

  constructor(limits: ConnectionLimits) {
    this.#limits = limits
    this.#open = new InFlight(limits.connectionsPerAddressMax)
  }

  /** Attaches to the HTTP/2 servers of a bound gRPC server. Throws a fault without any. */
  watch(server: object): void {
    const servers = (server as { http2Servers?: unknown }).http2Servers
    if (!(servers instanceof Map) || servers.size === 0)
      throw new Fault('grpc-library', 'grpc: the HTTP/2 servers of the library are not accessible')
    // A connection that could not be accepted, for lack of descriptors: its client sees the close.
    const report = faultReport(this.#limits.log, 'a connection could not be accepted')
    for (const http2Server of servers.keys() as Iterable<Http2Server>) {
      http2Server.on('error', report)
      this.#limitConnections(http2Server)
      http2Server.prependListener('stream', (stream, headers, _flags, ...rest: unknown[]) => {
        const encoding = encodingAskedBy(headers, this.#limits.compression)
        if (encoding !== null) this.#encodings.set(stream, encoding)
        if (!Array.isArray(rest[0]) || repeatsCredential(rest[0])) this.#repeated.add(stream)
      })
    }
  }

  /** True when a credential header of this call was sent twice. */
  hasRepeated(stream: ServerHttp2Stream | null): boolean {
    return stream === null || this.#repeated.has(stream)
  }

  /** The compression of the answers to this call; null for none. */
  encodingOf(stream: ServerHttp2Stream | null): GrpcEncoding | null {
    return (stream && this.#encodings.get(stream)) ?? null
  }

  /** Checks the bare TCP connection, before TLS and HTTP/2 cost any memory. */
  #limitConnections(http2Server: Http2Server): void {
    const accept = http2Server.rawListeners('connection') as ((socket: Socket) => void)[]
    http2Server.removeAllListeners('connection')
    const descriptors = descriptorReserve(this.#limits.log)
    http2Server.on('connection', (socket: Socket) => {
      const address = socket.remoteAddress
      // Without an address the peer has disconnected already.
      if (address === undefined || !descriptors.admits()) {
        socket.destroy()
        return
      }
      const key = addressKey(address)
      if (!this.#limits.isProxy(address)) {
        if (!this.#open.enter(key)) {
          socket.destroy()
          return
        }
        socket.once('close', () => this.#open.leave(key))
      }
      for (const listener of accept) listener.call(http2Server, socket)
    })
  }
}

/** Raw headers alternate names and values. */
function repeatsCredential(raw: readonly string[]): boolean {
  let tokens = 0
  let authorizations = 0
  for (let index = 0; index < raw.length; index += 2) {
    if (raw[index] === 'x-token') tokens++
    else if (raw[index] === 'authorization') authorizations++
  }
  return tokens > 1 || authorizations > 1
}
