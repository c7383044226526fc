// Opens the websocket endpoint.
//
//   upgrade on / -> admit: token (401) -> chain of the subscription (503 without one)
//                -> connections per address and plan, rate (429)
//                -> open: gate.lease closes it with 1008 within 1 s of the token's death
//   message      -> handle.ts: parse -> quota -> method -> answer in band
//   stream update -> engine of the chain: index -> text, once -> published to all subscribers
//   slow client  -> continues from the log where it has cursors, else 1013
//   too long message -> 1009;  stop -> 1001
import { codesOf, type RefusalKind, rpcCodeOf } from '../../base/errors.ts'
import { encodedText, errorMessage, type Message, whole } from '../../base/jsonrpc/build.ts'
import { Methods, type MethodTable } from '../../base/jsonrpc/serve.ts'
import type { Running } from '../../base/running.ts'
import type { CallTap } from '../../base/transport/call-tap.ts'
import { type EndpointDeps, openHttpEndpoint } from '../../base/transport/http-endpoint.ts'
import {
  CLOSE_POLICY,
  CLOSE_TOO_SLOW,
  jsonHead,
  Reply,
  withRetryAfter,
} from '../../base/transport/reply.ts'
import type { Request } from '../../base/transport/request.ts'
import type { Socket, SocketRoute } from '../../base/transport/websocket.ts'
import { NATIVE_UNSENT_FACTOR, offeredProtocols } from '../../base/transport/websocket.ts'
import { type Gate, registryExpired } from '../../customers/auth/gate.ts'
import { invalidToken, type Principal, refusedToken } from '../../customers/auth/token.ts'
import type { Budget } from '../../customers/quota/budget.ts'
import type { QuotaMeters } from '../../customers/quota/meters.ts'
import type { Quota } from '../../customers/quota/quota.ts'
import type { Subscription } from '../../customers/subscriptions/subscription.ts'
import type { PubsubChain } from '../../streams/pubsub/chain.ts'
import type { PubsubEngine } from '../../streams/pubsub/engine.ts'
import type { WebsocketSection } from './config.ts'
import { type HandleMessage, messageHandler, type Session, Subscriptions } from './handle.ts'
import { closingOf, type WebsocketMeters } from './meters.ts'

export interface WebsocketDeps extends EndpointDeps {
  readonly gate: Gate
  readonly quota: Quota
  readonly quotaMeters: QuotaMeters
  readonly meters: WebsocketMeters
  /** Answer of getVersion, as on rpc. */
  readonly version: Readonly<Record<string, string | number>>
  /** Methods besides getVersion and the subscriptions. */
  readonly methods: readonly MethodTable<Session>[]
  /** The chain that a subscription reads; null when no node has its stream: 503 at the upgrade. */
  chainOf(subscription: Subscription): PubsubChain | null
}

// As Solana's own server takes.
const INBOUND_BYTES_MAX = 4_096
const SILENCE_PINGS_MAX = 3
const BUSY_RETRY_MS = 1_000
/** A handshake costs as much as the cheapest call. */
const HANDSHAKE = 'handshake'
/** A subprotocol of this prefix carries the token where `queryToken` is on. */
const TOKEN_PROTOCOL = 'x-token.'

export async function startWebsocket(
  section: WebsocketSection,
  deps: WebsocketDeps,
): Promise<Running> {
  const log = deps.log.area('websocket')
  const version = encodedText(JSON.stringify(deps.version))
  const { clock } = deps
  const subscriptions = new Subscriptions({ meters: deps.meters.subscriptions, clock, log })
  const tables = [{ getVersion: () => version }, subscriptions.methods, ...deps.methods]
  const handle = messageHandler({
    methods: new Methods<Session>(...tables),
    meters: deps.meters,
    quotaMeters: deps.quotaMeters,
    log,
  })
  const endpoint = await openHttpEndpoint<Principal>({
    product: 'websocket',
    listen: { ...section, isShared: deps.sharePorts },
    tls: deps.tls,
    trustedProxies: deps.trustedProxies,
    connectionsPerAddressMax: deps.connectionsPerAddressMax,
    clock,
    log,
    http: {
      admit: (request) => admit(request, section, deps),
      error: (status, message) => errorReply(status, message),
      routes: [{ verb: 'GET', path: '/', handle: () => upgradeRequired }],
    },
    sockets: [socketRoute(section, deps, { handle, subscriptions })],
  })
  deps.meters.openSockets = () => endpoint.sockets.open.size
  subscriptions.usePublisher((topic, message, atOnce) => {
    if (atOnce === undefined) endpoint.sockets.publish(topic, message)
    else for (const session of atOnce) session.sendNow(message)
  })
  return {
    address: endpoint.address,
    async stop() {
      await endpoint.stop()
      subscriptions.stop()
    },
  }
}

function socketRoute(
  section: WebsocketSection,
  deps: WebsocketDeps,
  made: { readonly handle: HandleMessage; readonly subscriptions: Subscriptions },
): SocketRoute<Principal, PubsubConnection> {
  const { handle, subscriptions } = made
  return {
    path: '/',
    inboundBytesMax: INBOUND_BYTES_MAX,
    unsentBytesMax: section.unsentBytes,
    pingMs: section.pingMs,
    silenceMsMax: section.pingMs * SILENCE_PINGS_MAX,
    perAddressMax: section.connectionsPerAddress,
    upgrade: (request, principal) => {
      const chain = deps.chainOf(principal.subscription)
      if (chain === null) return noStream
      const { unsentBytes: unsentBytesMax } = section
      const engine = subscriptions.engineOf(chain)
      const state = connection({ principal, engine, unsentBytesMax }, deps)
      if (state instanceof Reply) return state
      return { state, protocol: section.queryToken ? chosenProtocol(request) : '' }
    },
    open: (socket) => socket.state.open(socket, deps.gate),
    message: ({ state }, data) => {
      const request = deps.calls?.isOn === true ? Uint8Array.from(data) : null
      const message = handle(data, state)
      const answer = (done: Message) => {
        const text = whole(done)
        if (request !== null) tapMessage(deps.calls!, state, request, text)
        state.answer(text)
      }
      if (message === 'ping') state.countPing()
      else if (message instanceof Promise) void message.then(answer)
      else answer(message)
    },
    ping: ({ state }) => state.countPing(),
    close: ({ state }, code) => {
      deps.meters.closed[closingOf(code)].inc()
      state.close()
    },
    release: ({ state }) => state.budget.leave('connections'),
  }
}

function tapMessage(
  calls: CallTap,
  state: PubsubConnection,
  request: Uint8Array,
  answer: string | Uint8Array,
): void {
  const about = { product: 'websocket', method: 'message', status: 0, isFromStream: false }
  calls.call({ ...about, set: state.set, connection: state, request, answer })
}

const replyOf = (kind: RefusalKind, message: string, head = jsonHead) => {
  const { http, jsonrpc: code } = codesOf[kind]
  return new Reply(http, head, errorMessage('null', { code, message }))
}
const expired = replyOf('unavailable', registryExpired.message)
const unauthorizedReply = (message: string) =>
  replyOf('unauthenticated', message, jsonHead.and('www-authenticate', 'Bearer'))
const unauthorized = {
  none: unauthorizedReply(
    'Unauthorized: send a token in x-token or Authorization: Bearer with the upgrade',
  ),
  invalid: unauthorizedReply(`Unauthorized: ${invalidToken}`),
}

const upgradeRequired = new Reply(
  426,
  jsonHead.and('upgrade', 'websocket').and('connection', 'upgrade'),
  errorMessage('null', { code: -32600, message: 'this endpoint speaks WebSocket' }),
)

const noStream = replyOf(
  'unavailable',
  'WebSocket is not available: no node of this subscription has a geyser stream',
)

/** Authentication 3: the two headers, and nothing else on this endpoint without `queryToken`. */
function admit(
  request: Request,
  { queryToken }: WebsocketSection,
  { gate }: WebsocketDeps,
): Principal | Reply {
  const credentials = queryToken
    ? { ...request.credentials, handshakeToken: handshakeToken(request) }
    : request.credentials
  const principal = gate.admit('websocket', credentials, request.address)
  if (principal !== null) return principal
  return gate.isExpired() ? expired : unauthorized[refusedToken('websocket', credentials)]
}

/** The token of a handshake whose client cannot send headers; '' without one. */
function handshakeToken(request: Request): string {
  const protocol = offeredProtocols(request).find(isToken) ?? TOKEN_PROTOCOL
  return (
    request.parameter('api-key') ||
    request.parameter('api_key') ||
    protocol.slice(TOKEN_PROTOCOL.length)
  )
}

/** Browsers require one that they offered: the one with the token only when it is alone. */
function chosenProtocol(request: Request): string {
  const offered = offeredProtocols(request)
  if (!offered.some(isToken)) return ''
  return offered.find((name) => !isToken(name)) ?? offered[0]!
}

function isToken(protocol: string): boolean {
  return protocol.startsWith(TOKEN_PROTOCOL)
}

function connection(
  given: Omit<ConnectionDeps, 'budget'>,
  { quota, quotaMeters }: WebsocketDeps,
): PubsubConnection | Reply {
  const budget = quota.budgetOf(given.principal.subscription)
  const { ok, retryAfterMs } = budget.spend(HANDSHAKE)
  if (ok && budget.enter('connections')) return new PubsubConnection({ ...given, budget })
  quotaMeters.refused.websocket.inc()
  const reason = ok ? 'too many connections on this plan' : 'the rate of the plan is used up'
  return errorReply(429, `Too many requests: ${reason}`, ok ? BUSY_RETRY_MS : retryAfterMs)
}

function errorReply(status: number, message: string, retryAfterMs = BUSY_RETRY_MS): Reply {
  const head = status === 429 ? withRetryAfter(jsonHead, retryAfterMs) : jsonHead
  return new Reply(status, head, errorMessage('null', { code: rpcCodeOf(status), message }))
}

// One customer's connection from upgrade to close: the lease of its token and the bound of its
// unsent bytes. Its permit of the plan is taken before, and returned when its memory is free.

/** Clients ping every few seconds to keep a connection warm; only a flood shall cost something. */
const PINGS_PER_CREDIT = 10

/** Unsent bytes at which a replay pauses. */
const ROOM_BYTES = 1024 * 1024
/** Shares of the bound: subscriptions with cursors continue from the log; and a replay goes on. */
const BEHIND_SHARE = 1 / 4
const ROOM_SHARE = 1 / 8

export interface ConnectionDeps {
  readonly principal: Principal
  readonly budget: Budget
  readonly engine: PubsubEngine
  readonly unsentBytesMax: number
}

export class PubsubConnection implements Session {
  readonly budget: Budget
  readonly engine: PubsubEngine
  readonly #principal: Principal
  readonly #unsentBytesMax: number
  readonly #endings: (() => void)[] = []
  #socket: Socket<PubsubConnection> | null = null
  /** What was unsent as it fell behind: one turn may publish more than the bound. */
  #burstBytes = 0
  #pings = 0

  constructor(deps: ConnectionDeps) {
    this.#principal = deps.principal
    this.budget = deps.budget
    this.engine = deps.engine
    this.#unsentBytesMax = deps.unsentBytesMax
  }

  /** The set of nodes that it reads; null for the shared one. */
  get set(): string | null {
    return this.#principal.subscription.upstream
  }

  /** Ties the connection to its token: when that dies, 1008 follows within a second. */
  open(socket: Socket<PubsubConnection>, gate: Gate): void {
    this.#socket = socket
    const release = gate.lease(this.#principal, 'websocket', socket.address, () =>
      socket.end(CLOSE_POLICY, 'the token is no longer valid'),
    )
    this.#endings.push(release)
  }

  send(message: string | Uint8Array): void {
    const socket = this.#socket
    if (socket === null) return
    this.#send(socket, message)
    this.budget.meter('bytes', message.length)
    if (!this.#isTooSlow(socket)) return
    // Within a turn an update may be published in part.
    if (this.engine.canFallBehind(this)) setImmediate(() => this.checkUnsent())
    else this.checkUnsent()
  }

  /** Sends an answer, unless it is ''. */
  answer(message: string | Uint8Array): void {
    if (message !== '') this.send(message)
  }

  notify(message: string | Uint8Array): void {
    this.budget.meter('notifications', 1)
    this.send(message)
  }

  sendNow(message: Uint8Array): void {
    if (this.#socket !== null) this.#send(this.#socket, message)
  }

  join(topic: string): void {
    this.#socket?.subscribe(topic)
  }

  leave(topic: string): void {
    this.#socket?.unsubscribe(topic)
  }

  hasRoom(): boolean {
    const unsentBytes = this.#socket?.unsentBytes ?? 0
    const hasRoom = unsentBytes < Math.min(ROOM_BYTES, this.#unsentBytesMax * ROOM_SHARE)
    if (hasRoom) this.#burstBytes = 0
    return hasRoom
  }

  checkUnsent(publishedBytes = 0): void {
    const socket = this.#socket
    if (socket === null) return
    const { unsentBytes } = socket
    const isBehind = unsentBytes > this.#unsentBytesMax * BEHIND_SHARE
    // A turn with more than the transport takes would leave a hole: the client resumes by itself.
    const isWhole = unsentBytes + publishedBytes <= this.#unsentBytesMax * NATIVE_UNSENT_FACTOR
    if (isBehind && isWhole && this.engine.fallBehind(this)) this.#burstBytes = socket.unsentBytes
    else if (this.#isTooSlow(socket) || (!isWhole && this.engine.canFallBehind(this)))
      endSlow(socket)
  }

  /** Nothing follows what the transport has discarded. */
  #send(socket: Socket<PubsubConnection>, message: string | Uint8Array): void {
    if (socket.send(message) === 'dropped') endSlow(socket)
  }

  #isTooSlow({ unsentBytes }: Socket<PubsubConnection>): boolean {
    const max = this.#unsentBytesMax
    return unsentBytes > Math.min(max + this.#burstBytes, max * NATIVE_UNSENT_FACTOR)
  }

  /** A ping of the protocol or in JSON. The connection stays, also when no credit is left. */
  countPing(): void {
    if (++this.#pings % PINGS_PER_CREDIT === 0) this.budget.spend('ping')
  }

  onEnd(release: () => void): void {
    this.#endings.push(release)
  }

  close(): void {
    this.#socket = null
    for (const end of this.#endings.splice(0)) end()
  }
}

function endSlow(socket: Socket<PubsubConnection>): void {
  socket.end(CLOSE_TOO_SLOW, 'the client reads too slowly')
}
