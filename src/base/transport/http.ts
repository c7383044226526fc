// Serves HTTP over the native server and handles its pitfalls for every product.
//
//   head -> limit 429 -> framing 400/431 -> in-flight cap 429 -> preflight -> admit -> path 404
//        -> verb 405 -> route.check -> size 413 -> body (408 after 10 s) -> route.handle -> Reply
//
// A product passes `HttpOptions`: `admit` decides on the headers alone (a Reply refuses,
// anything else is the context of the later steps), `routes` do the rest. The body passed to
// `handle` is borrowed: it is valid until the handler returns or first awaits; copy what must live
// longer. Handlers may be async, may throw (500), and need not handle a client that disconnected.
import type { Clock } from '../clock.ts'
import { isBrokenInvariant } from '../errors.ts'
import { type Log, LogThrottle } from '../telemetry/log.ts'
import type { Addresses } from './address.ts'
import { InFlight } from './connections.ts'
import { Exchange, type ExchangeOwner } from './exchange.ts'
import { errorReply, Reply, type ResponseHead } from './reply.ts'
import { type HeadOptions, Request } from './request.ts'
import type { App, NativeRequest, NativeResponse } from './uws.ts'

export type Verb = 'GET' | 'POST' | 'PUT' | 'DELETE'

export interface HttpRoute<C> {
  readonly verb: Verb
  /** `/v1/blocks/:number/lifecycle`: a `:name` takes one segment, a final `/*` takes the rest. */
  readonly path: string
  /** Longest body in bytes; a longer one is 413. Without it no body is read. */
  readonly bodyBytesMax?: number
  /** Detects at once that the client disconnected (`request.onGone`); in exchange a client that
   *  pipelines a second request meanwhile loses its connection. */
  readonly watchesClient?: boolean
  /** No recorder gets its bodies: they have a credential, or none can be compared. */
  readonly isUnrecorded?: boolean
  /** Refuses on the headers, before the body is read (media type). */
  check?(request: Request, context: C): Reply | null
  handle(request: Request, body: Buffer, context: C): Reply | Promise<Reply>
  /** Answers a request whose body is too long, where the URL decides; `reply` is the 413. */
  tooLong?(request: Request, context: C, reply: Reply): Promise<Reply>
}

export interface HttpOptions<C> {
  readonly routes: readonly HttpRoute<C>[]
  /** Called first for every request, preflights, errors and WebSocket upgrades included: a Reply
   *  refuses it, a promise of one pauses its connection meanwhile. */
  limit?(request: Request): Reply | Promise<Reply> | null
  /** Called once per request before path and verb; also before WebSocket upgrades' `upgrade`. */
  admit(request: Request): C | Reply
  /** Lower-case names for `request.header()`. */
  readonly wants?: readonly string[]
  /** Answers every OPTIONS with 204 and these headers, without calling `admit`. */
  readonly preflight?: ResponseHead
  /** Formats the endpoint's own errors (400, 404, 405, 408, 413, 429, 431, 500). */
  error?(status: number, message: string, request: Request | null, context?: C): Reply
  /** Requests in flight per address (IPv6: per /64): waiting for body, answer or reader. */
  readonly inFlightPerAddressMax?: number
}

export interface HttpParts {
  readonly addresses: Addresses
  readonly clock: Clock
  readonly log: Log
}

const BODY_MS_MAX = 10_000
// The native server closes silent connections after 8 to 12 s; a touch in between resets that
// timeout, so that the client gets our 408.
const BODY_TOUCH_MS = 4_000
const SWEEP_MS = 250
const IN_FLIGHT_PER_ADDRESS_MAX = 256
const NO_BODY = Buffer.alloc(0)

export class Http<C> implements ExchangeOwner {
  readonly #options: HttpOptions<C>
  readonly #parts: HttpParts
  readonly #headOptions: HeadOptions
  readonly #throttle = new LogThrottle()
  readonly #router: Router<HttpRoute<C>>
  readonly #waiting: InFlight
  /** In flight, but not yet counted by address: so few that no address can exceed its limit. */
  readonly #unnamed = new Set<Exchange>()
  /** Those whose body is not here yet. The newest is kept apart: most bodies come with their head,
   *  and adding to a set and deleting from it costs more than the rest. */
  readonly #reading = new Set<Exchange>()
  #newest: Exchange | null = null
  readonly #sweeper: NodeJS.Timeout
  #inFlight = 0
  #isStopping = false

  constructor(options: HttpOptions<C>, parts: HttpParts) {
    this.#options = options
    this.#parts = parts
    this.#headOptions = { addresses: parts.addresses, wants: new Set(options.wants ?? []) }
    this.#waiting = new InFlight(options.inFlightPerAddressMax ?? IN_FLIGHT_PER_ADDRESS_MAX)
    this.#router = new Router(options.routes)
    this.#sweeper = setInterval(() => this.#sweep(), SWEEP_MS).unref()
  }

  /** Requests that were begun and not yet answered or abandoned. */
  get inFlight(): number {
    return this.#inFlight
  }

  /** Routes an app's HTTP requests here; called once per TLS generation, after its sockets. */
  bind(app: App): void {
    // The native router matches verb and path of these at no extra cost.
    for (const route of this.#router.exact()) {
      const begin = (response: NativeResponse, native: NativeRequest) =>
        this.#begin(response, native, route)
      if (route.verb === 'POST') app.post(route.path, begin)
      else if (route.verb === 'GET') app.get(route.path, begin)
    }
    app.any('/*', (response, native) => this.#begin(response, native, null))
  }

  /** From now on each response closes its connection. */
  beginStop(): void {
    this.#isStopping = true
  }

  endStop(): void {
    clearInterval(this.#sweeper)
  }

  errorReply(status: number, message: string, request: Request | null, context?: C): Reply {
    return this.#options.error?.(status, message, request, context) ?? errorReply(status, message)
  }

  /** Counts an exchange among those in flight of its address, or refuses it. */
  waits(exchange: Exchange): boolean {
    if (exchange.isCounted || exchange.request === null) return true
    if (this.#waiting.isEmpty && this.#unnamed.size < this.#waiting.max) {
      this.#unnamed.add(exchange)
      exchange.isCounted = true
      return true
    }
    this.#name()
    exchange.isCounted = this.#waiting.enter(exchange.request.address)
    if (!exchange.isCounted) {
      this.#endReading(exchange)
      exchange.answerCorked(this.#tooMany(exchange))
    }
    return exchange.isCounted
  }

  finished(exchange: Exchange): void {
    this.#inFlight--
    this.#endReading(exchange)
    if (exchange.isCounted && !this.#unnamed.delete(exchange))
      this.#waiting.leave(exchange.request!.address)
  }

  /** An error of a handler: the caller gets 500, the log gets the reason. A broken invariant stops
   *  the process. */
  failed(exchange: Exchange, error: unknown): void {
    if (isBrokenInvariant(error)) throw error
    this.#endReading(exchange)
    if (this.#throttle.allows('handler', this.#parts.clock.monotonicMs()))
      this.#parts.log.error('HTTP request handler failed', { reason: reasonOf(error) })
    exchange.answerFailure(this.#lastError(exchange, 500, 'internal error'))
  }

  #begin(response: NativeResponse, native: NativeRequest, route: HttpRoute<C> | null): void {
    const exchange = new Exchange(response, this)
    this.#inFlight++
    try {
      exchange.isLast = this.#isStopping
      exchange.request = new Request(native, response, this.#headOptions, route)
      const outcome = this.#consider(exchange, exchange.request, route)
      if (outcome !== null) exchange.settle(outcome)
    } catch (error) {
      this.failed(exchange, error)
    }
  }

  /** Every step that needs only the headers; null while the body is being read. */
  #consider(
    exchange: Exchange,
    request: Request,
    known: HttpRoute<C> | null,
  ): Reply | Promise<Reply> | null {
    const { problem } = request
    const refused = this.#options.limit?.(request) ?? null
    if (problem !== null) return this.#lastError(exchange, problem.status, problem.message)
    if (refused !== null) return refused
    if (this.#unnamed.size >= this.#waiting.max) this.#name()
    if (this.#waiting.isAnyFull && this.#waiting.isFull(request.address))
      return this.#tooMany(exchange)
    if (request.method === 'OPTIONS' && this.#options.preflight !== undefined)
      return new Reply(204, this.#options.preflight)
    const context = this.#options.admit(request)
    if (context instanceof Reply) return context
    if (known !== null) return this.#enter(exchange, request, known, context)
    const found = this.#router.find(request.path)
    if (found === null) return this.errorReply(404, 'not found', request, context)
    request.params = found.params
    const verb = request.method === 'HEAD' ? 'GET' : request.method
    const route = found.routes.find((candidate) => candidate.verb === verb)
    if (route === undefined) return this.#wrongVerb(request, found.routes, context)
    return this.#enter(exchange, request, route, context)
  }

  #enter(
    exchange: Exchange,
    request: Request,
    route: HttpRoute<C>,
    context: C,
  ): Reply | Promise<Reply> | null {
    const refused = route.check?.(request, context) ?? null
    if (refused !== null) return refused
    exchange.watchesClient = route.watchesClient ?? false
    const bodyBytesMax = route.bodyBytesMax ?? 0
    if (bodyBytesMax === 0) return route.handle(request, NO_BODY, context)
    const tooLong = () => {
      const text = `a body has at most ${bodyBytesMax} bytes`
      const reply = this.#lastError(exchange, 413, text, context)
      return route.tooLong?.(request, context, reply) ?? reply
    }
    if (request.contentLength > bodyBytesMax) return tooLong()
    if (this.#newest !== null) this.#reading.add(this.#newest)
    this.#newest = exchange
    let isRead = false
    exchange.read(bodyBytesMax, (body) => {
      // What follows the part that is too long.
      if (isRead) return
      isRead = true
      this.#endReading(exchange)
      exchange.settle(body === null ? tooLong() : route.handle(request, body, context))
    })
    return null
  }

  #endReading(exchange: Exchange): void {
    if (this.#newest === exchange) this.#newest = null
    else this.#reading.delete(exchange)
  }

  /** Counts by address after all; deferred because reading an address costs as much as a token
   *  check. */
  #name(): void {
    for (const { request } of this.#unnamed) this.#waiting.enter(request!.address)
    this.#unnamed.clear()
  }

  #tooMany({ request }: Exchange): Reply {
    return this.errorReply(429, 'too many requests in flight from this address', request)
  }

  #wrongVerb(request: Request, routes: readonly HttpRoute<C>[], context: C): Reply {
    const reply = this.errorReply(405, 'method not allowed', request, context)
    const verbs: string[] = routes.flatMap(({ verb }) =>
      verb === 'GET' ? ['GET', 'HEAD'] : [verb],
    )
    if (this.#options.preflight !== undefined) verbs.push('OPTIONS')
    return new Reply(405, reply.head.and('allow', verbs.join(', ')), reply.body)
  }

  /** An error after which the connection is closed. */
  #lastError(exchange: Exchange, status: number, message: string, context?: C): Reply {
    exchange.isLast = true
    return this.errorReply(status, message, exchange.request, context)
  }

  /** Applies the timeout to bodies that have not arrived yet. */
  #sweep(): void {
    const nowMs = this.#parts.clock.monotonicMs()
    if (this.#newest !== null) this.#reading.add(this.#newest)
    this.#newest = null
    for (const exchange of this.#reading) {
      if (exchange.seenMs === 0) {
        exchange.seenMs = exchange.touchedMs = nowMs
        this.waits(exchange)
      } else if (nowMs - exchange.seenMs >= BODY_MS_MAX) {
        this.#endReading(exchange)
        exchange.answerCorked(this.#lastError(exchange, 408, 'the body took longer than 10 s'))
      } else if (nowMs - exchange.touchedMs >= BODY_TOUCH_MS) exchange.touch(nowMs)
    }
  }
}

function reasonOf(error: unknown): string {
  // A SyntaxError quotes the text it failed on, which is the caller's: only its stack is logged.
  if (error instanceof SyntaxError) return (error.stack ?? '').split('\n').slice(1, 4).join('\n')
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

// Finds the routes of a path that the native router did not match.

interface Routed {
  readonly path: string
}

export class Router<R extends Routed> {
  readonly #exact = new Map<string, R[]>()
  readonly #patterns: { readonly segments: readonly string[]; readonly routes: R[] }[] = []

  /** A `:name` in a path matches one segment, a final `/*` matches the rest. */
  constructor(routes: readonly R[]) {
    for (const route of routes) this.#add(route)
  }

  /** The routes whose path has no pattern. */
  exact(): R[] {
    return [...this.#exact.values()].flat()
  }

  /** The routes of a path, one per verb, with the values of their parameters; exact paths first. */
  find(path: string): { readonly routes: readonly R[]; readonly params: readonly string[] } | null {
    const exact = this.#exact.get(path)
    if (exact !== undefined) return { routes: exact, params: [] }
    const parts = path.split('/')
    for (const { segments, routes } of this.#patterns) {
      const params = matchSegments(segments, parts)
      if (params !== null) return { routes, params }
    }
    return null
  }

  #add(route: R): void {
    if (!route.path.includes(':') && !route.path.endsWith('/*')) {
      this.#exact.set(route.path, [...(this.#exact.get(route.path) ?? []), route])
      return
    }
    const same = this.#patterns.find(({ segments }) => segments.join('/') === route.path)
    if (same === undefined)
      this.#patterns.push({ segments: route.path.split('/'), routes: [route] })
    else same.routes.push(route)
  }
}

function matchSegments(segments: readonly string[], parts: readonly string[]): string[] | null {
  const isOpen = segments.at(-1) === '*'
  const length = isOpen ? segments.length - 1 : segments.length
  if (parts.length < length || (!isOpen && parts.length !== length)) return null
  const params: string[] = []
  for (let index = 0; index < length; index++) {
    if (segments[index]!.startsWith(':')) params.push(parts[index]!)
    else if (segments[index] !== parts[index]) return null
  }
  if (isOpen) params.push(parts.slice(length).join('/'))
  return params
}
