// The connections of a gRPC endpoint: how many one address has open, and what the headers of their
// calls say that the library hides.
import type { Http2Server, ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { Fault } from '../errors.ts'
import { faultReport, type Log, LogThrottle } from '../telemetry/log.ts'
import { InFlight, tooManyOpen } from './connections.ts'
import { descriptorGuard } from './descriptors.ts'
import { notAccepted } from './grpc-bind.ts'
import { encodingAskedBy, type GrpcEncoding } from './grpc-encoding.ts'
import { framePrefixBytes } from './grpc-stream.ts'

export interface ConnectionLimits {
  /** Connections of one address, IPv4 /32 or IPv6 /64; one more is closed at once. */
  readonly connectionsPerAddressMax: number
  /** True for trusted proxies, which carry many clients: they are not counted. */
  isProxy(address: string): boolean
  /** Compressions of answers, where a caller asks for one. */
  readonly compression: readonly string[]
  /** Of a Unix socket, whose peers have no address. */
  readonly path?: string | undefined
  /** Whether a message that came with its headers is shown before the call is admitted. */
  readonly showsArrived?: boolean | undefined
  readonly log: Log
}

/** Counts as the address of a peer at a Unix socket. */
const localAddress = '127.0.0.1'

/**
 * Limits connections per address on the library's HTTP/2 servers, and reads from a call's headers
 * what the library hides: duplicate credentials and accepted compressions. http2 joins a repeated
 * `x-token` with a comma but silently drops a second `authorization`; only the raw header list has
 * it, and only for a listener before the library's own. The servers are not public in the library.
 */
export class GrpcConnections {
  readonly #repeated = new WeakSet<ServerHttp2Stream>()
  readonly #encodings = new WeakMap<ServerHttp2Stream, GrpcEncoding>()
  readonly #arriving = new WeakMap<ServerHttp2Stream, () => Buffer | null>()
  readonly #limits: ConnectionLimits
  readonly #open: InFlight
  readonly #sockets = new Set<Socket>()

  constructor(limits: ConnectionLimits) {
    this.#limits = limits
    this.#open = new InFlight(limits.connectionsPerAddressMax)
  }

  /** Attaches to the HTTP/2 servers of a bound gRPC server. Throws a fault without any. */
  watch(server: object): void {
    const servers = (server as { http2Servers?: unknown }).http2Servers
    if (!(servers instanceof Map) || servers.size === 0)
      throw new Fault('grpc-library', 'grpc: the HTTP/2 servers of the library are not accessible')
    const report = faultReport(this.#limits.log, notAccepted)
    for (const http2Server of servers.keys() as Iterable<Http2Server>) {
      http2Server.on('error', report)
      this.#limitConnections(http2Server)
      http2Server.prependListener('stream', (stream, headers, _flags, ...rest: unknown[]) => {
        if (isFar(headers['grpc-timeout'])) delete headers['grpc-timeout']
        const encoding = encodingAskedBy(headers, this.#limits.compression)
        if (encoding !== null) this.#encodings.set(stream, encoding)
        if (!Array.isArray(rest[0]) || repeatsCredential(rest[0])) this.#repeated.add(stream)
        if (this.#limits.showsArrived === true) this.#arriving.set(stream, arrivingOf(stream))
      })
    }
  }

  /** Closes what is still open. */
  close(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  /** True when a credential header of this call was sent twice. */
  hasRepeated(stream: ServerHttp2Stream | null): boolean {
    return stream === null || this.#repeated.has(stream)
  }

  /** The compression of the answers to this call; null for none. */
  encodingOf(stream: ServerHttp2Stream | null): GrpcEncoding | null {
    return (stream && this.#encodings.get(stream)) ?? null
  }

  /** The whole message of this call, if it came with its headers; it is still to be read. */
  arrivedOf(stream: ServerHttp2Stream | null): Buffer | null {
    return (stream && this.#arriving.get(stream)?.()) ?? null
  }

  /** Checks the bare TCP connection, before TLS and HTTP/2 cost any memory. */
  #limitConnections(http2Server: Http2Server): void {
    const accept = http2Server.rawListeners('connection') as ((socket: Socket) => void)[]
    http2Server.removeAllListeners('connection')
    const descriptors = descriptorGuard(this.#limits.log)
    const throttle = new LogThrottle()
    http2Server.on('connection', (socket: Socket) => {
      const { path } = this.#limits
      const address = socket.remoteAddress ?? (path === undefined ? undefined : localAddress)
      // Without an address the peer has disconnected already.
      const isOpen = address !== undefined && descriptors.admits()
      const isCounted = isOpen && !this.#limits.isProxy(address)
      const isRefused = isCounted && !this.#open.enter(address)
      if (isRefused && throttle.allows('refused', performance.now()))
        this.#limits.log.warn(tooManyOpen, { address })
      if (!isOpen || isRefused) {
        socket.destroy()
        return
      }
      this.#sockets.add(socket)
      socket.once('close', () => {
        this.#sockets.delete(socket)
        if (isCounted) this.#open.leave(address)
      })
      for (const listener of accept) listener.call(http2Server, socket)
    })
  }
}

/** Of a message with its prefix; a longer one is read when its call is admitted. */
const arrivedBytesMax = 16 * 1024

/** Remembers what comes, until it is asked for the message. */
function arrivingOf(stream: ServerHttp2Stream): () => Buffer | null {
  const parts: Buffer[] = []
  let size = 0
  const push = stream.push
  stream.push = (part: Buffer | null, ...rest) => {
    size += part?.length ?? 0
    if (part !== null && size <= arrivedBytesMax) parts.push(part)
    return push.call(stream, part, ...rest)
  }
  return () => {
    stream.push = push
    if (size < framePrefixBytes || size > arrivedBytesMax) return null
    const bytes = Buffer.concat(parts)
    const isWhole = size === framePrefixBytes + bytes.readUInt32BE(1)
    // Compressed bytes would be inflated for a caller who may have no token.
    return isWhole && bytes[0] === 0 ? bytes.subarray(framePrefixBytes) : null
  }
}

const unitMs: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1_000 }

/** The library makes 32 bits of a timeout: one of months would be over at once. */
function isFar(timeout: unknown): boolean {
  const [, count, unit = ''] = /^(\d+)([HMS])$/.exec(String(timeout)) ?? []
  return Number(count) * (unitMs[unit] ?? 0) >= 2 ** 31
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
