// A gRPC endpoint: listens, admits each call before any message is read, passes raw messages on.
// The only importer of @grpc/grpc-js on the server side. It decodes no protobuf.
//
//   connection -> admit(headers) --refused--> trailers with the status, nothing read
//                     |
//                     +-- limits of the method's request messages
//                             |
//                             +-- unary   -> answer(bytes) -> bytes or refusal
//                             +-- stream  -> open(stream)  -> frames on the call's http2 stream
import type { ServerHttp2Stream } from 'node:http2'
import type {
  ServerDuplexStream,
  ServerInterceptingCallInterface,
  ServerInterceptor,
  ServerListener,
  ServerUnaryCall,
  sendUnaryData,
  UntypedServiceImplementation,
} from '@grpc/grpc-js'
import { Metadata, Server, ServerInterceptingCall } from '@grpc/grpc-js'
import { isBrokenInvariant, messageOf } from '../errors.ts'
import type { Running } from '../running.ts'
import { whenDone } from '../steps.ts'
import type { Log } from '../telemetry/log.ts'
import { bindGrpc, type GrpcCertificates } from './grpc-bind.ts'
import { type ConnectionLimits, GrpcConnections } from './grpc-connections.ts'
import { type GrpcEncoding, requestEncodings } from './grpc-encoding.ts'
import type {
  GrpcStatus,
  GrpcStream,
  LibraryCall,
  RequestLimits,
  StreamEvents,
} from './grpc-stream.ts'
import {
  closeLater,
  DirectStream,
  grpcCode,
  handleCompression,
  innermostCall,
  limitRequests,
  RefusedStreams,
  retryDetails,
} from './grpc-stream.ts'

/** Caller and method of a call, before any message is read. */
export interface GrpcPeer {
  readonly path: string
  readonly address: string
  readonly xToken: string | undefined
  readonly authorization: string | undefined
  /** A credential header was sent more than once. */
  readonly isRepeated: boolean
}

export type Admission<C> =
  | { readonly ok: true; readonly caller: C; leave(): void }
  | { readonly ok: false; readonly status: GrpcStatus }

export type UnaryAnswer =
  | { readonly ok: true; readonly bytes: Uint8Array }
  | { readonly ok: false; readonly status: GrpcStatus }

type AnyAnswer = UnaryAnswer | Promise<UnaryAnswer>

export interface MethodHead {
  readonly path: string
  readonly kind: 'unary' | 'stream'
  /** Limits besides the endpoint's size limit; by default any number of messages, no timeout. */
  readonly requests?: Partial<RequestLimits>
}

/** `A` is the answer of a unary method, or what becomes one. */
export type GrpcMethod<C, A = UnaryAnswer> = MethodHead &
  (
    | { readonly kind: 'unary'; answer(request: Buffer, caller: C): A }
    | { readonly kind: 'stream'; open(stream: GrpcStream, caller: C): StreamEvents }
  )

export interface GrpcEndpointOptions<C> extends ConnectionLimits {
  readonly host: string
  readonly port: number
  /** Whether other gateways may listen on the same port. */
  readonly isShared?: boolean | undefined
  /** A Unix socket instead of host and port, in plain text. */
  readonly path?: string | undefined
  readonly certificates: GrpcCertificates | null
  readonly messageBytesMax: number
  readonly keepaliveMs: number
  readonly keepaliveTimeoutMs: number
  /** A connection without a call for this long is closed with GOAWAY. */
  readonly connectionIdleMs: number
  clientAddress(peer: string, forwardedFor: string): string
  /**
   * Decides at once, or in another thread; so do the methods. A message that came with the headers
   * is shown once, where `showsArrived` says so.
   */
  admit(peer: GrpcPeer, arrived: () => Buffer | null): Admission<C> | Promise<Admission<C>>
  readonly methods: readonly GrpcMethod<C, AnyAnswer>[]
  readonly log: Log
}

interface Admitted<C> {
  readonly caller: C
  readonly encoding: GrpcEncoding | null
  /** Resolves once the last message was taken. */
  taken: Promise<void> | null
}

/** Streams of one connection; a plan allows far fewer. */
const streamsPerConnectionMax = 256
/** Timeout from the headers of a unary call to its whole message. */
const requestDeadlineMs = 10_000
const refusalGraceMs = 1_000
const stopGraceMs = 3_000

/** Opens the endpoint. `stop` drains calls for three seconds, then closes the rest. */
export async function openGrpcEndpoint<C>(options: GrpcEndpointOptions<C>): Promise<Running> {
  const connections = new GrpcConnections(options)
  const callers = new WeakMap<Metadata, Admitted<C>>()
  const server = new Server({
    'grpc.max_receive_message_length': options.messageBytesMax,
    'grpc.max_send_message_length': -1,
    'grpc.max_concurrent_streams': streamsPerConnectionMax,
    'grpc.keepalive_time_ms': options.keepaliveMs,
    'grpc.keepalive_timeout_ms': options.keepaliveTimeoutMs,
    'grpc.max_connection_idle_ms': options.connectionIdleMs,
    'grpc.enable_channelz': 0,
    interceptors: [guard({ options, callers, connections })],
  })
  for (const method of guardedMethods(options.methods, options.log))
    addMethod(server, method, callers)
  const binding = await bindGrpc(server, options, options.certificates)
  connections.watch(server)
  let stopping: Promise<void> | undefined
  return {
    address: { host: options.host, port: binding.port, tls: options.certificates !== null },
    stop() {
      stopping ??= new Promise((resolve) => {
        // In this order: drain remembers the open sessions and closes them after the grace period.
        binding.drain(stopGraceMs)
        // Connections amid their TLS handshake are no sessions: the library waits for them.
        const late = setTimeout(() => connections.close(), stopGraceMs + refusalGraceMs)
        server.tryShutdown(() => {
          clearTimeout(late)
          resolve()
        })
      })
      return stopping
    },
  }
}

/** What the calls of an endpoint share. */
interface Guard<C> {
  readonly options: GrpcEndpointOptions<C>
  readonly callers: WeakMap<Metadata, Admitted<C>>
  readonly connections: GrpcConnections
  readonly limits: ReadonlyMap<string, RequestLimits>
  readonly refused: RefusedStreams
}

/** Admits in the first callback of a call, so that a refusal consists of trailers only. */
function guard<C>(shared: Omit<Guard<C>, 'limits' | 'refused'>): ServerInterceptor {
  const { options } = shared
  const limits = new Map(options.methods.map((method) => [method.path, limitsOf(method, options)]))
  const all: Guard<C> = { ...shared, limits, refused: new RefusedStreams() }
  return (method, call) => {
    const guarded = new GuardedCall(all, method, call)
    const listener: ServerListener = {
      onReceiveMetadata: (metadata, proceed) => guarded.admit(metadata, () => proceed(metadata)),
      // Else what another thread has not taken yet would have no bound.
      onReceiveMessage: (message, proceed) => guarded.received(() => proceed(message)),
      onReceiveHalfClose: (proceed) => {
        guarded.requestEnded()
        proceed()
      },
      onCancel: () => guarded.ended(),
    }
    return new ServerInterceptingCall(call, { start: (next) => next(listener) })
  }
}

/** One call, from its headers to its end. */
class GuardedCall<C> {
  readonly #guard: Guard<C>
  readonly #method: { readonly path: string; readonly requestStream: boolean }
  readonly #call: ServerInterceptingCallInterface
  readonly #peerAddress: string
  /** Releases what the admission took; null before it and after the end. */
  #leave: (() => void) | null = null
  #deadline: NodeJS.Timeout | undefined
  #hasEnded = false
  #admitted: Admitted<C> | null = null

  constructor(
    all: Guard<C>,
    method: { readonly path: string; readonly requestStream: boolean },
    call: ServerInterceptingCallInterface,
  ) {
    this.#guard = all
    this.#method = method
    this.#call = call
    this.#peerAddress = call.getConnectionInfo().remoteAddress ?? ''
  }

  /** Calls `proceed` once the call is admitted; sends the status of one that is refused. */
  admit(metadata: Metadata, proceed: () => void): void {
    const { options, callers, connections, refused } = this.#guard
    const inner = innermostCall(this.#call)
    const stream = inner?.stream ?? null
    const arrived = () => connections.arrivedOf(stream)
    whenDone(options.admit(this.#peer(metadata, stream), arrived), (admission) => {
      if (!admission.ok) {
        this.#call.sendStatus(errorOf(admission.status))
        refused.add(stream, refusalGraceMs)
        return
      }
      // It was cancelled while another thread decided.
      if (this.#hasEnded) return admission.leave()
      this.#leave = admission.leave
      const encoding = connections.encodingOf(stream)
      this.#admitted = { caller: admission.caller, encoding, taken: null }
      callers.set(metadata, this.#admitted)
      if (inner !== null) this.#limit(inner, encoding)
      const late = () => this.#refuse(stream, lateRequest)
      if (!this.#method.requestStream) this.#deadline = setTimeout(late, requestDeadlineMs).unref()
      proceed()
    })
  }

  /** Calls `proceed` once the message before was taken. */
  received(proceed: () => void): void {
    const taken = this.#admitted?.taken ?? null
    if (taken === null) proceed()
    else void taken.then(proceed)
  }

  /** The client has sent its last message. */
  requestEnded(): void {
    clearTimeout(this.#deadline)
  }

  ended(): void {
    this.#hasEnded = true
    clearTimeout(this.#deadline)
    this.#leave?.()
    this.#leave = null
  }

  #peer(metadata: Metadata, stream: ServerHttp2Stream | null): GrpcPeer {
    const { options, connections } = this.#guard
    const xToken = headerOf(metadata, 'x-token')
    const forwarded = headerOf(metadata, 'x-forwarded-for') ?? ''
    return {
      path: this.#method.path,
      // An IPv4 address without the prefix that maps it to IPv6.
      address: options.clientAddress(this.#peerAddress.replace(/^::ffff:(?=.*\.)/, ''), forwarded),
      xToken,
      authorization: headerOf(metadata, 'authorization'),
      isRepeated: connections.hasRepeated(stream) || xToken?.includes(',') === true,
    }
  }

  #limit(inner: LibraryCall, encoding: GrpcEncoding | null): void {
    const limits = this.#guard.limits.get(this.#method.path)!
    const { stream } = inner
    limitRequests(stream, limits, (status) => this.#refuse(stream, status))
    const refused = () => closeLater(stream, refusalGraceMs)
    handleCompression(inner, { ...limits, encoding, refused })
  }

  /** Ends an admitted call. */
  #refuse(stream: ServerHttp2Stream | null, status: GrpcStatus): void {
    this.#call.sendStatus(errorOf(status))
    closeLater(stream, refusalGraceMs)
  }
}

function limitsOf<C>(method: MethodHead, options: GrpcEndpointOptions<C>): RequestLimits {
  const { messageBytesMax } = options
  return { messageBytesMax, messagesMax: Infinity, firstMessageMs: null, ...method.requests }
}

function addMethod<C>(
  server: Server,
  method: GrpcMethod<C, AnyAnswer>,
  callers: WeakMap<Metadata, Admitted<C>>,
): void {
  const isStream = method.kind === 'stream'
  const definition = {
    path: method.path,
    // A server-streaming method is a bidirectional one whose client sends one message.
    requestStream: isStream,
    responseStream: isStream,
    requestSerialize: asBuffer,
    requestDeserialize: asBuffer,
    responseSerialize: asBuffer,
    responseDeserialize: asBuffer,
  }
  const run =
    method.kind === 'unary'
      ? (call: ServerUnaryCall<Buffer, Buffer>, reply: sendUnaryData<Buffer>) => {
          const { caller, encoding } = callers.get(call.metadata)!
          whenDone(method.answer(call.request, caller), (answer) => {
            if (!answer.ok) return reply(errorOf(answer.status))
            call.sendMetadata(headOf(encoding))
            reply(null, answer.bytes as Buffer)
          })
        }
      : (call: ServerDuplexStream<Buffer, Buffer>) =>
          openStream(call, method.open, callers.get(call.metadata)!)
  server.addService({ method: definition }, { method: run } as UntypedServiceImplementation)
}

function openStream<C>(
  call: ServerDuplexStream<Buffer, Buffer>,
  open: (stream: GrpcStream, caller: C) => StreamEvents,
  admitted: Admitted<C>,
): void {
  const { caller, encoding } = admitted
  let events: StreamEvents | undefined
  let isClosed = false
  const finish = (status: GrpcStatus) => {
    if (status.code === grpcCode.ok) call.end()
    else call.emit('error', errorOf(status))
  }
  const inner = innermostCall((call as unknown as { call: unknown }).call)
  // Only in a library that grpc-probe.ts refuses at start.
  if (inner === null) return void finish(ourFault)
  const header = (name: string) => headerOf(call.metadata, name)
  const stream = new DirectStream(inner.stream, { encoding, header }, finish)
  inner.stream.on('drain', () => {
    if (!isClosed) events?.drained()
  })
  // The response headers are sent at once, so that the client knows it was admitted.
  call.sendMetadata(headOf(encoding))
  call.on('data', (bytes: Buffer) => {
    admitted.taken = events?.message(bytes) ?? null
  })
  call.on('end', () => events?.halfClosed())
  call.on('cancelled', () => {
    if (isClosed) return
    isClosed = true
    events?.closed()
  })
  events = open(stream, caller)
}

/** Methods whose errors are logged and end the call; a broken invariant still ends the process. */
export function guardedMethods<C, A extends AnyAnswer>(
  methods: readonly GrpcMethod<C, A>[],
  log: Log,
): GrpcMethod<C, A | UnaryAnswer>[] {
  return methods.map((method): GrpcMethod<C, A | UnaryAnswer> => {
    const { path } = method
    if (method.kind === 'stream')
      return { ...method, open: (stream, caller) => openGuarded(method, { stream, caller, log }) }
    return {
      ...method,
      answer(request, caller) {
        try {
          return method.answer(request, caller)
        } catch (error) {
          log.error('gRPC call failed', { path, reason: messageOf(error) })
          return { ok: false, status: ourFault }
        }
      },
    }
  })
}

function openGuarded<C>(
  { path, open }: GrpcMethod<C, never> & { readonly kind: 'stream' },
  { stream, caller, log }: { stream: GrpcStream; caller: C; log: Log },
): StreamEvents {
  let events: StreamEvents | undefined
  const guarded = <T>(run: () => T): T | undefined => {
    try {
      return run()
    } catch (error) {
      if (isBrokenInvariant(error)) throw error
      log.error('gRPC stream failed', { path, reason: messageOf(error) })
      stream.end(ourFault)
      return undefined
    }
  }
  guarded(() => {
    events = open(stream, caller)
  })
  return {
    message: (bytes) => guarded(() => events?.message(bytes)),
    halfClosed: () => guarded(() => events?.halfClosed()),
    drained: () => events?.drained(),
    closed: () => guarded(() => events?.closed()),
  }
}

const lateRequest: GrpcStatus = {
  code: grpcCode.deadlineExceeded,
  details: 'the request message did not arrive within 10 seconds',
}
const ourFault: GrpcStatus = { code: grpcCode.internal, details: 'internal error' }

function asBuffer(bytes: Buffer): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes)
}

/** A status in the form of the library's errors. */
function errorOf(status: GrpcStatus) {
  const metadata = new Metadata()
  if (status.retryAfterMs !== undefined) {
    // The header has 32 bits, and so has a timer of Node: one of more fires at once.
    const pushbackMs = Math.min(Math.ceil(status.retryAfterMs), 2 ** 31 - 1)
    metadata.set('grpc-retry-pushback-ms', String(pushbackMs))
    metadata.set('grpc-status-details-bin', retryDetails(status, status.retryAfterMs))
  }
  return { name: 'status', message: status.details, ...status, metadata }
}

/** The head of an answer whose messages may be compressed. */
function headOf(encoding: GrpcEncoding | null): Metadata {
  const head = new Metadata()
  head.set('grpc-accept-encoding', requestEncodings)
  if (encoding !== null) head.set('grpc-encoding', encoding)
  return head
}

/** The first value of a header; undefined when absent. */
function headerOf(metadata: Metadata, name: string): string | undefined {
  const value = metadata.get(name)[0]
  return typeof value === 'string' ? value : undefined
}
