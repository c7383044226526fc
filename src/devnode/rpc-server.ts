// JSON-RPC, PubSub and geyser as a validator serves them: no quota, and no token unless the node
// has a secret.
// Thread: main of the devnode.
//
//   POST any path  one call or a batch -> the chain's method table
//   GET  /health   ok
//   GET  /v0/total-supply, /v0/circulating-supply   in SOL
import { timingSafeEqual } from 'node:crypto'
import { isLoopback } from '../base/cidr.ts'
import type { Clock } from '../base/clock.ts'
import { Commitment } from '../base/commitment.ts'
import { refuse } from '../base/errors.ts'
import { encodedText, errorMessage, type Message, whole } from '../base/jsonrpc/build.ts'
import { parseRequest } from '../base/jsonrpc/parse.ts'
import { Answerer, Methods, type MethodTable, responseMessage } from '../base/jsonrpc/serve.ts'
import type { Running } from '../base/running.ts'
import { whenDone } from '../base/steps.ts'
import { faultReport, type Log } from '../base/telemetry/log.ts'
import type { Meters } from '../base/telemetry/meters.ts'
import { openGrpcEndpoint } from '../base/transport/grpc.ts'
import { grpcEncodings } from '../base/transport/grpc-encoding.ts'
import { type GrpcStatus, grpcCode } from '../base/transport/grpc-stream.ts'
import type { HttpRoute } from '../base/transport/http.ts'
import { type HttpEndpoint, openHttpEndpoint } from '../base/transport/http-endpoint.ts'
import type { ListenAddress } from '../base/transport/listen-address.ts'
import { CLOSE_TOO_SLOW, jsonHead, Reply, ResponseHead } from '../base/transport/reply.ts'
import { mediaTypeOf } from '../base/transport/request.ts'
import type { Socket } from '../base/transport/websocket.ts'
import type { Shapes } from '../chain/solana/version.ts'
import { loadCodec } from '../streams/geyser/codec.ts'
import { type GrpcChain, statusOf } from '../streams/geyser/fan-out.ts'
import type { SolanaHub } from '../streams/geyser/hub.ts'
import { declareGrpcMeters } from '../streams/geyser/meters.ts'
import { GeyserService } from '../streams/geyser/service.ts'
import type { Customer, PubsubChain, Session } from '../streams/pubsub/chain.ts'
import { PubsubEngine, subscriptionMethods } from '../streams/pubsub/engine.ts'
import { Ids } from '../streams/pubsub/feed.ts'
import { declareSubscriptionMeters, Notifier } from '../streams/pubsub/notifier.ts'
import type { Ledger } from './ledger/ledger.ts'
import { nonCirculating } from './rpc/accounts.ts'

interface RpcServerDeps {
  readonly methods: MethodTable<null>
  /** For a web page of another host, and for a name that was pointed at this machine. */
  readonly foreignMethods: MethodTable<null>
  /** What a caller must send as x-token; null serves everybody. */
  readonly secret: string | null
  readonly ledger: Ledger
  readonly clock: Clock
  readonly log: Log
}

/** As a validator's defaults. */
const bodyBytesMax = 51_200
const lamportsPerSol = 1e9
const anyOrigin = { 'access-control-allow-origin': '*' }
const jsonType = { 'content-type': 'application/json; charset=utf-8' }
const textType = { 'content-type': 'text/plain' }
const preflight = ResponseHead.of({
  ...anyOrigin,
  'access-control-allow-methods': 'POST, GET, OPTIONS',
  'access-control-allow-headers': 'content-type, solana-client',
  'access-control-max-age': '86400',
})

export function startRpcServer(
  listen: ListenAddress,
  deps: RpcServerDeps,
): Promise<HttpEndpoint<null>> {
  const { ledger, secret } = deps
  const methods = new UnlimitedMethods<null>(deps, '\n')
  const foreign = new UnlimitedMethods<null>({ ...deps, methods: deps.foreignMethods }, '\n')
  const isAdmitted = secretCheck(secret)
  const origins = secret === null ? anyOrigin : {}
  const jsonHead = ResponseHead.of({ ...jsonType, ...origins })
  const textHead = ResponseHead.of({ ...textType, ...origins })
  const refusal = (status: number, message: string) =>
    new Reply(status, jsonHead, `${errorMessage('null', { code: -32600, message })}\n`)
  const totalSupply = () => ledger.supply(Commitment.finalized)
  /** On every path, as a validator. */
  const post: Omit<HttpRoute<null>, 'path'> = {
    verb: 'POST',
    bodyBytesMax,
    check: ({ contentType }) =>
      mediaTypeOf(contentType) === 'application/json'
        ? null
        : new Reply(415, textHead, wrongMediaType),
    handle: (request, body) => {
      const caller = { host: request.header('host'), origin: request.origin }
      const message = (isLocalCaller(caller) ? methods : foreign).serve(body, null)
      return whenDone(message, (done) => new Reply(200, jsonHead, done))
    },
  }
  return openHttpEndpoint<null>({
    product: 'devnode rpc',
    listen,
    tls: null,
    trustedProxies: [],
    clock: deps.clock,
    log: deps.log,
    http: {
      admit: ({ credentials }) =>
        isAdmitted(credentials.xToken) ? null : refusal(401, 'x-token is missing or wrong'),
      wants: ['host'],
      ...(secret === null ? { preflight } : {}),
      error: (status, message) =>
        status === 405 ? new Reply(405, textHead, wrongVerb) : refusal(status, message),
      routes: [
        { ...post, path: '/' },
        { ...post, path: '/*' },
        {
          verb: 'GET',
          path: '/health',
          handle: () => new Reply(200, textHead, 'ok'),
        },
        supplyRoute('/v0/total-supply', textHead, totalSupply),
        supplyRoute(
          '/v0/circulating-supply',
          textHead,
          () => totalSupply() - nonCirculating(ledger, Commitment.finalized).lamports,
        ),
      ],
    },
  })
}

/** SOL as a validator prints it: nine digits at most, no zeros at the end. */
function supplyRoute(path: string, head: ResponseHead, lamports: () => bigint): HttpRoute<null> {
  const sol = () => (Number(lamports()) / lamportsPerSol).toFixed(9).replace(/\.?0+$/, '')
  return { verb: 'GET', path, handle: () => new Reply(200, head, sol()) }
}

const wrongMediaType =
  'Supplied content type is not allowed. Content-Type: application/json is required\n'
const wrongVerb = 'Used HTTP Method is not allowed. POST or OPTIONS is required\n'

// Solana PubSub over WebSocket.
//
//   message      -> subscribe methods -> registry -> feed
//   chain update -> hub -> pubsub engine: text once -> published to all subscribers

interface PubsubServerDeps {
  readonly hub: SolanaHub
  readonly ledger: Ledger
  /** Of the version that it answers as. */
  readonly shapes: Shapes
  /** What a caller must send as x-token; null serves everybody. */
  readonly secret: string | null
  readonly meters: Meters
  readonly clock: Clock
  readonly log: Log
}

/** As a validator's defaults. */
const inboundBytesMax = 4_096
const unsentBytesMax = 16 * 1024 * 1024
/** Unsent bytes at which a replay pauses. */
const roomBytes = 1024 * 1024
const pingMs = 30_000
const silenceMsMax = 90_000

export async function startPubsubServer(listen: ListenAddress, deps: PubsubServerDeps) {
  const { ledger, clock, log } = deps
  const meters = declareSubscriptionMeters(deps.meters)
  const chain: PubsubChain = {
    hub: deps.hub,
    isUp: () => true,
    shapes: () => deps.shapes,
    slot: (commitment) => ledger.slot(commitment),
    signatureStatus: async (signature) => ledger.signatureStatus(signature),
    readAccounts: async (keys) => keys.map((key) => ledger.account(key, Commitment.processed)),
  }
  const notifier = new Notifier(meters, clock)
  const engine = new PubsubEngine({ ...deps, chain, ids: new Ids(), notifier, meters })
  const version = encodedText(JSON.stringify(deps.shapes.release))
  const table = { ...subscriptionMethods<Connection>(() => engine), getVersion: () => version }
  const methods = new UnlimitedMethods<Connection>({ methods: table, log })
  const isAdmitted = secretCheck(deps.secret)
  const refusal = (status: number, message: string) =>
    new Reply(status, jsonHead, errorMessage('null', { code: -32600, message }))
  const endpoint = await openHttpEndpoint<null>({
    product: 'devnode websocket',
    listen,
    tls: null,
    trustedProxies: [],
    clock,
    log,
    http: {
      admit: ({ credentials }) =>
        isAdmitted(credentials.xToken) ? null : refusal(401, 'x-token is missing or wrong'),
      error: refusal,
      routes: [],
    },
    sockets: [
      {
        path: '/',
        inboundBytesMax,
        unsentBytesMax,
        pingMs,
        silenceMsMax,
        perAddressMax: 0,
        upgrade: () => ({ state: new Connection(), protocol: '' }),
        open: (socket: Socket<Connection>) => socket.state.open(socket),
        message: ({ state }: Socket<Connection>, data: Buffer) => {
          const message = methods.serve(data, state)
          if (message instanceof Promise) void message.then((done) => state.answer(whole(done)))
          else state.answer(whole(message))
        },
        close: ({ state }: Socket<Connection>) => state.close(),
      },
    ],
  })
  notifier.publish = (topic, message) => endpoint.sockets.publish(topic, message)
  return {
    address: endpoint.address,
    async stop() {
      await endpoint.stop()
      engine.stop()
      notifier.stop()
    },
  }
}

class Connection implements Session {
  readonly budget = unlimitedCustomer
  readonly #endings: (() => void)[] = []
  #socket: Socket<Connection> | null = null

  open(socket: Socket<Connection>): void {
    this.#socket = socket
  }

  /** Sends an answer, unless it is ''. */
  answer(message: string | Uint8Array): void {
    if (message !== '') this.notify(message)
  }

  notify(message: string | Uint8Array): void {
    this.#socket?.send(message)
    this.checkUnsent()
  }

  sendNow(message: Uint8Array): void {
    this.#socket?.send(message)
  }

  join(topic: string): void {
    this.#socket?.subscribe(topic)
  }

  leave(topic: string): void {
    this.#socket?.unsubscribe(topic)
  }

  hasRoom(): boolean {
    return (this.#socket?.unsentBytes ?? 0) < roomBytes
  }

  checkUnsent(): void {
    const socket = this.#socket
    if (socket !== null && socket.unsentBytes > unsentBytesMax)
      socket.end(CLOSE_TOO_SLOW, 'the client reads too slowly')
  }

  onEnd(release: () => void): void {
    this.#endings.push(release)
  }

  close(): void {
    this.#socket = null
    for (const end of this.#endings.splice(0)) end()
  }
}

// Who may call the devnode.
// Beside a gateway it serves its parent alone, which sends the secret of this start. A node of its
// own serves whoever reaches its port; a web page reaches it too, under its own name or under one
// that it points here, and that caller gets no cheat codes.

/** The check of `x-token`; without a secret everybody passes. */
export function secretCheck(secret: string | null): (sent: string | undefined) => boolean {
  if (secret === null) return () => true
  const expected = Buffer.from(secret)
  return (sent = '') => {
    const bytes = Buffer.from(sent)
    return bytes.length === expected.length && timingSafeEqual(bytes, expected)
  }
}

/** Whether a request names this machine: in Host, and in Origin where a browser sends one. */
export function isLocalCaller(head: { readonly host: string; readonly origin: string }): boolean {
  const { host, origin } = head
  return isLocalUrl(`http://${host}`) && (origin === '' || isLocalUrl(origin))
}

function isLocalUrl(text: string): boolean {
  return URL.canParse(text) && isLoopback(new URL(text).hostname)
}

// Admits every call and subscription: a local node has no plans.

const batchItemsMax = 10_000

class UnlimitedMethods<C> {
  readonly #answerer: Answerer<C>
  readonly #end: string

  /** `end` follows every response. */
  constructor({ methods, log }: { methods: MethodTable<C>; log: Log }, end = '') {
    this.#answerer = new Answerer(new Methods(methods).call, faultReport(log, 'method failed'))
    this.#end = end
  }

  /** The response, '' for none. Never throws and never rejects. */
  serve(body: Buffer, caller: C): Message | Promise<Message> {
    const request = parseRequest(body, batchItemsMax)
    return whenDone(this.#answerer.answer(request, caller), (answers) =>
      responseMessage(request, answers, this.#end),
    )
  }
}

/** Pays for any number of subscriptions and notifications. */
const unlimitedCustomer: Customer = {
  plan: {
    subscriptionsPerConnection: Number.MAX_SAFE_INTEGER,
    distinctSubscriptions: Number.MAX_SAFE_INTEGER,
    filterKeys: 100_000,
  },
  enter: () => true,
  leave() {},
  meter() {},
  chargeNotification: () => true,
  notificationWaitMs: () => 0,
}

// geyser.Geyser as a validator with the yellowstone plugin serves it.

interface GeyserServerDeps {
  readonly chain: GrpcChain
  readonly meters: Meters
  /** The version of the package. */
  readonly version: string
  /** What a caller must send as x-token; null serves everybody. */
  readonly secret: string | null
  readonly clock: Clock
  readonly log: Log
}

const mebibyte = 1024 * 1024
/** A local node serves every client; these bounds only protect it from mistakes. */
const filterLimits = {
  filtersMax: 1_000,
  accountsMax: 100_000,
  ownersMax: 10_000,
  dataSlicesMax: 1_000,
  cuckooBytesMax: 4 * mebibyte,
  any: true,
  accountReject: new Set<string>(),
  ownerReject: new Set<string>(),
}
const connectionsMax = 10_000

export async function startGeyserServer(
  listen: ListenAddress,
  deps: GeyserServerDeps,
): Promise<Running> {
  const { chain, clock, log, version } = deps
  const isAdmitted = secretCheck(deps.secret)
  const service = new GeyserService<null>({
    codec: loadCodec(),
    limits: filterLimits,
    keysMax: () => filterLimits.accountsMax,
    backlogBytesMax: 64 * mebibyte,
    pingMs: 10_000,
    version,
    meters: declareGrpcMeters(deps.meters),
    clock,
    chainOf: () => chain,
    meter() {},
    charge: () => null,
    lease: () => () => {},
  })
  const endpoint = await openGrpcEndpoint<null>({
    ...listen,
    certificates: null,
    messageBytesMax: 8 * mebibyte,
    keepaliveMs: 30_000,
    keepaliveTimeoutMs: 10_000,
    connectionIdleMs: 300_000,
    connectionsPerAddressMax: connectionsMax,
    compression: grpcEncodings,
    clientAddress: (peer) => peer,
    isProxy: () => false,
    admit: ({ xToken }) =>
      isAdmitted(xToken)
        ? { ok: true, caller: null, leave() {} }
        : { ok: false, status: unauthenticated },
    methods: service.methods,
    log,
  })
  return {
    address: endpoint.address,
    async stop() {
      service.stop(stopping)
      await endpoint.stop()
    },
  }
}

const unauthenticated = statusOf(
  refuse('unauthenticated', 'x-token', 'x-token is missing or wrong').refusal,
)
const stopping: GrpcStatus = { code: grpcCode.unavailable, details: 'the node is stopping' }
