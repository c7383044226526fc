// Routes HTTP requests of the endpoint and authenticates them.
// rest.ts and rpc.ts build the answers; here they get their status, headers and compression, and
// are charged to the client's address.
import { setTimeout as sleep } from 'node:timers/promises'
import { Bucket, type Rate } from '../../base/bucket.ts'
import type { Clock } from '../../base/clock.ts'
import { type ExpositionFormat, formatFor } from '../../base/telemetry/exposition.ts'
import type { Meters } from '../../base/telemetry/meters.ts'
import type { HttpOptions, HttpRoute } from '../../base/transport/http.ts'
import {
  codingOf,
  encoded,
  errorReply,
  Reply,
  ResponseHead,
  withRetryAfter,
} from '../../base/transport/reply.ts'
import type { Request } from '../../base/transport/request.ts'
import { type Gate, registryExpired } from '../../customers/auth/gate.ts'
import type { Principal } from '../../customers/auth/token.ts'
import { type HandshakeTickets, ticketSecs } from './handshake-tickets.ts'
import { type Limits, rpcBodyBytesMax, shortBodyBytes } from './limits.ts'
import { type LivePage, prefersPage } from './live.ts'
import type { MetricsMeters, RouteName } from './meters.ts'
import * as rest from './rest.ts'
import { type RpcParts, readBody } from './rpc.ts'
import { type SolanaView, solanaDocument } from './solana.ts'

/** Compressing less than this costs more than it saves. */
const gzipBytesMin = 1024

/** How often the expensive answers are rebuilt: 4 ms and 1 ms of the main thread. */
const scrapeRate = { perSecond: 1, burst: 5 }
const lifecyclesRate = { perSecond: 2, burst: 10 }
const solanaRate = { perSecond: 1, burst: 1 }

/** The authenticated caller; null when the endpoint or the path needs no token. */
export type Caller = Principal | null

export interface RouteParts extends rest.RestParts, RpcParts {
  /** Null: `metrics.auth` is `open`. */
  readonly gate: Pick<Gate, 'admit' | 'isExpired'> | null
  readonly tickets: HandshakeTickets
  readonly instruments: Meters
  readonly meters: MetricsMeters
  readonly limits: Limits
  readonly clock: Clock
  /** Null: `metrics.page` is `off`. */
  readonly page: LivePage | null
  readonly solana: SolanaView
  /** True while streams and REST are closed, for lack of execution events. */
  isStale(): boolean
}

export const jsonHead = ResponseHead.of({
  'content-type': 'application/json',
  'access-control-allow-origin': '*',
  'cache-control': 'no-store',
})

const preflight = ResponseHead.of({
  'access-control-allow-origin': '*',
  'access-control-allow-methods': 'GET, HEAD, POST, OPTIONS',
  'access-control-allow-headers': 'content-type, x-token, authorization',
  'access-control-max-age': '86400',
})

const openPaths: ReadonlySet<string> = new Set([
  '/health',
  '/ready',
  '/metrics',
  ...rest.documentPaths,
])
/** Of the nodes, not of execution events: it stays open while those are missing. */
const solanaPath = '/v1/solana'
/** Paths of the event stream: an upgrade there may present a ticket instead of a token. */
export const streamPaths: readonly string[] = ['/v1/ws', '/']

export function httpOptions(parts: RouteParts): HttpOptions<Caller> {
  return {
    wants: ['accept', 'accept-encoding', 'host', 'if-none-match', 'sec-websocket-key', 'upgrade'],
    preflight,
    limit: (request) => parts.limits.request(request),
    admit: (request) => admit(request, parts),
    error: (status, message) => {
      if (status === 429) parts.meters.refused['address-limit'].inc()
      return errorReply(status, message, jsonHead)
    },
    routes: routes(parts),
  }
}

function admit(request: Request, parts: RouteParts): Caller | Reply {
  const { gate, tickets, meters, page } = parts
  if (openPaths.has(request.path) || (page !== null && isPagePath(request))) return null
  if (parts.isStale() && request.path !== solanaPath)
    return errorReply(503, 'no execution event for 30 s', jsonHead)
  if (gate === null) return null
  const ticket = ticketOf(request)
  const principal =
    ticket === null
      ? gate.admit('metrics', request.credentials, request.address)
      : tickets.redeem(ticket, request.address)
  if (principal !== null) return principal
  if (ticket === null && gate.isExpired()) return errorReply(503, registryExpired.message, jsonHead)
  meters.refused.unauthorized.inc()
  const message =
    ticket === null ? 'unauthorized' : 'the ticket is unknown, used, expired or of another address'
  return errorReply(401, message, jsonHead.and('www-authenticate', 'Bearer'))
}

/** The ticket of a WebSocket handshake; null for any other request. */
function ticketOf(request: Request): string | null {
  const isUpgrade = request.method === 'GET' && request.header('upgrade') !== ''
  return isUpgrade && streamPaths.includes(request.path) ? request.parameter('ticket') : null
}

/** The page has no data: it may be loaded without a token, and asks for one. */
function isPagePath(request: Request): boolean {
  const { path } = request
  if (path === '/') return request.method !== 'POST' && prefersPage(request)
  return path === '/live' || path.startsWith('/live/')
}

function routes(parts: RouteParts): HttpRoute<Caller>[] {
  const get = (path: string, name: RouteName, answer: (request: Request) => rest.Answer) => ({
    verb: 'GET' as const,
    path,
    handle: (request: Request) => {
      parts.meters.requests[name].inc()
      const { status, body } = answer(request)
      parts.limits.sent(request.address, body.length)
      return new Reply(status, jsonHead, body)
    },
  })
  const streams = new AnswerStreams()
  const lifecycles = new SharedAnswer(lifecyclesRate, parts.clock, () => rest.lifecycles(parts))
  return [
    get('/v1/tps', 'tps', () => rest.tps(parts)),
    get('/v1/contention', 'contention', () => rest.contention(parts)),
    get('/v1/top', 'top', () => rest.top(parts)),
    get('/v1/status', 'status', () => rest.status(parts)),
    listing(parts, streams),
    get('/v1/blocks/lifecycle', 'lifecycles', () => lifecycles.get()),
    get('/v1/blocks/:number/lifecycle', 'lifecycle', ({ params }) =>
      rest.lifecycle(parts, params[0] ?? ''),
    ),
    get('/health', 'health', () => rest.health(parts)),
    get('/ready', 'ready', () => rest.readiness(parts)),
    ...rest.documentPaths.map((path) => get(path, 'document', () => rest.documentAt(path))),
    scraping(parts),
    watching(parts),
    calling(parts, streams),
    ticketing(parts),
    ...streamPaths.map((path) => notAnUpgrade(path, parts)),
    ...pages(parts),
  ]
}

function listing(parts: RouteParts, streams: AnswerStreams): HttpRoute<Caller> {
  const { limits, meters } = parts
  return {
    verb: 'GET',
    path: '/v1/blocks',
    handle: (request) => {
      meters.requests.blocks.inc()
      if (request.isRepeated('last')) return badRequest('last is given more than once')
      const last = rest.parseLast(request.parameter('last'))
      if (!last.ok) return badRequest(last.refusal.message)
      const { address } = request
      const answer = () => {
        const sent = (bytes: number) => limits.sent(address, bytes)
        const body = streams.answer(rest.blocks(parts, last.value), sent)
        const reply = new Reply(200, jsonHead.and('vary', 'accept-encoding'), body)
        const coding = gzipFor(request)
        return coding === null ? reply : encoded(reply, coding, sharedEffort)
      }
      const { filling, count } = parts.history
      return filling === null || count >= last.value ? answer() : filling.then(answer)
    },
  }
}

function ticketing({ gate, tickets, meters }: RouteParts): HttpRoute<Caller> {
  return {
    verb: 'POST',
    path: '/v1/ticket',
    isUnrecorded: true,
    handle: (request, _, caller) => {
      meters.requests.ticket.inc()
      if (gate === null || caller === null)
        return errorReply(404, 'no ticket is needed: metrics.auth is open', jsonHead)
      const ticket = tickets.issue(caller, request.address)
      if (!ticket.ok)
        return errorReply(429, ticket.refusal.message, withRetryAfter(jsonHead, ticketSecs * 1000))
      const body = JSON.stringify({ ticket: ticket.value, expires_in_secs: ticketSecs })
      return new Reply(200, jsonHead, body)
    },
  }
}

function calling(parts: RouteParts, streams: AnswerStreams): HttpRoute<Caller> {
  const { limits, meters } = parts
  const answer = (request: Request, body: Buffer) => {
    const prepared = readBody(body, parts)
    const refused = limits.calls(request, prepared.cost)
    if (refused !== null) return refused
    const { address } = request
    const text = streams.answer(prepared.pieces(), (bytes) =>
      limits.sent(address, bytes - prepared.cost.bytes),
    )
    return new Reply(200, jsonHead, text)
  }
  return {
    verb: 'POST',
    path: '/',
    bodyBytesMax: rpcBodyBytesMax,
    handle: (request, body) => {
      meters.requests.rpc.inc()
      if (body.length <= shortBodyBytes) return answer(request, body)
      // The native server reuses the memory of the body.
      const kept = Buffer.from(body)
      return streams.turn().then(() => answer(request, kept))
    },
  }
}

/** One exposition or other text, with its compressed form once it was requested. */
interface Exposition {
  readonly contentType: string
  readonly body: string
  zipped: Promise<Buffer> | null
}

function scraping({ instruments, meters, limits, clock }: RouteParts): HttpRoute<Caller> {
  const made = async (format: ExpositionFormat): Promise<Exposition> => ({
    ...(await instruments.render(format)),
    zipped: null,
  })
  const shared = {
    text: new SharedAnswer(scrapeRate, clock, () => made('text')),
    openmetrics: new SharedAnswer(scrapeRate, clock, () => made('openmetrics')),
  }
  return {
    verb: 'GET',
    path: '/metrics',
    handle: async (request) => {
      meters.requests.metrics.inc()
      const { address } = request
      const exposition = await shared[formatFor(request.header('accept'))].get()
      const reply = await expositionReply(request, exposition)
      limits.sent(address, reply.body.length)
      return new Reply(200, reply.head, reply.body)
    },
  }
}

/** GET /v1/solana: built at most once a second, encoded once for all readers. */
function watching(parts: RouteParts): HttpRoute<Caller> {
  const { page, solana, instruments, meters, limits, clock } = parts
  const isFull = page?.mode === 'full'
  const shared = new SharedAnswer(solanaRate, clock, async (): Promise<Exposition> => {
    const body = await solanaDocument(solana, instruments, { isFull, nowMs: clock.nowMs() })
    return { contentType: 'application/json', body, zipped: null }
  })
  return {
    verb: 'GET',
    path: solanaPath,
    handle: async (request) => {
      meters.requests.solana.inc()
      const { address } = request
      const reply = await expositionReply(request, await shared.get())
      limits.sent(address, reply.body.length)
      return new Reply(200, reply.head, reply.body)
    },
  }
}

async function expositionReply(
  request: Request,
  exposition: Exposition,
): Promise<{ head: ResponseHead; body: string | Buffer }> {
  const { contentType, body } = exposition
  // No CORS: a scraper needs none, and a page in an operator's browser is not to read it.
  const head = ResponseHead.of({
    'content-type': contentType,
    'cache-control': 'no-store',
    vary: 'accept, accept-encoding',
  })
  const coding = body.length < gzipBytesMin ? null : gzipFor(request)
  if (coding === null) return { head, body }
  exposition.zipped ??= coding.whole(Buffer.from(body), sharedEffort)
  return { head: head.and('content-encoding', 'gzip'), body: await exposition.zipped }
}

/** zlib's usual level: what many read is compressed once. */
const sharedEffort = -1

function gzipFor(request: Request) {
  return codingOf(request.header('accept-encoding'), ['gzip'])
}

/** Answers a plain GET on a WebSocket path; on `/` a browser gets the page. */
function notAnUpgrade(path: string, parts: RouteParts): HttpRoute<Caller> {
  const head = jsonHead.and('upgrade', 'websocket').and('vary', 'accept')
  const answer = errorReply(426, 'this path requires a WebSocket upgrade', head)
  const { page } = parts
  return {
    verb: 'GET',
    path,
    handle: (request) =>
      path === '/' && page !== null && prefersPage(request)
        ? pageReply(request, parts, page.page(request))
        : answer,
  }
}

function pages(parts: RouteParts): HttpRoute<Caller>[] {
  const { page } = parts
  if (page === null) return []
  const missing = errorReply(404, 'not found', jsonHead)
  return [
    {
      verb: 'GET',
      path: '/live',
      handle: (request) => pageReply(request, parts, page.page(request)),
    },
    {
      verb: 'GET',
      path: '/live/:file',
      handle: (request) => {
        const [name = ''] = request.params
        const found = name === 'solana' ? page.page(request, name) : page.file(request, name)
        return pageReply(request, parts, found ?? missing)
      },
    },
  ]
}

function pageReply(request: Request, { limits, meters }: RouteParts, reply: Reply): Reply {
  meters.requests.page.inc()
  const { body } = reply
  if (typeof body === 'string' || body instanceof Uint8Array)
    limits.sent(request.address, body.length)
  return reply
}

/** For handshakes that are refused before they become sockets. */
export function badRequest(message: string): Reply {
  return errorReply(400, message, jsonHead)
}

// Caches an expensive answer: rebuilds it at a bounded rate, and beyond it returns the last one to
// all callers.

export class SharedAnswer<T> {
  readonly #bucket: Bucket
  readonly #clock: Clock
  readonly #make: () => T
  #last: T | undefined

  constructor(rate: Rate, clock: Clock, make: () => T) {
    this.#bucket = new Bucket(rate)
    this.#clock = clock
    this.#make = make
  }

  /** A new answer while the rate allows it, else the last one. */
  get(): T {
    const nowMs = this.#clock.monotonicMs()
    if (this.#last !== undefined && this.#bucket.waitMs(1, nowMs) > 0) return this.#last
    this.#bucket.take(1, nowMs)
    this.#last = this.#make()
    return this.#last
  }
}

// Streams large answers in slices that are built while they are sent.
// One slice, or one long body that is read, per millisecond over all of them together: any other
// request waits for one at most, however many are in flight.

/** Bytes of one slice, 0.2 ms of work. A shorter answer goes out whole and with its length. */
const sliceBytes = 64 * 1024
const copiedBytesMax = 4 * 1024
type Pieces = Iterator<Uint8Array>
type Sent = (bytes: number) => void
const sliceEveryMs = 1

export class AnswerStreams {
  /** The turn of the answer that waits last. */
  #last = Promise.resolve()

  /** The answer that `pieces` make, whole when it is short. `sent` is called once with its length,
   *  when it is sent or the client disconnected. */
  answer(pieces: Pieces, sent: Sent): Uint8Array | AsyncIterable<Uint8Array> {
    const first = sliceOf(pieces)
    if (!first.isLast) return this.#stream(first, pieces, sent)
    sent(first.bytes)
    return Buffer.concat(first.parts, first.bytes)
  }

  async *#stream(first: Slice, pieces: Pieces, sent: Sent): AsyncGenerator<Uint8Array> {
    let bytes = 0
    try {
      for (let slice = first; ; slice = sliceOf(pieces)) {
        bytes += slice.bytes
        yield* joined(slice.parts)
        if (slice.isLast) return
        await this.turn()
      }
    } finally {
      sent(bytes)
    }
  }

  /** Resolves when it is the caller's turn. */
  turn(): Promise<void> {
    this.#last = this.#last.then(() => sleep(sliceEveryMs))
    return this.#last
  }
}

interface Slice {
  readonly parts: readonly Uint8Array[]
  readonly bytes: number
  readonly isLast: boolean
}

function sliceOf(pieces: Pieces): Slice {
  const parts: Uint8Array[] = []
  let bytes = 0
  while (bytes < sliceBytes) {
    const next = pieces.next()
    if (next.done === true) return { parts, bytes, isLast: true }
    parts.push(next.value)
    bytes += next.value.length
  }
  return { parts, bytes, isLast: false }
}

/** Long parts are not copied: 64 MB of copies make V8 collect the whole heap. */
function* joined(parts: readonly Uint8Array[]): Generator<Uint8Array> {
  let from = 0
  for (const [at, part] of parts.entries()) {
    if (part.length < copiedBytesMax) continue
    if (at > from) yield Buffer.concat(parts.slice(from, at))
    yield part
    from = at + 1
  }
  if (from < parts.length) yield Buffer.concat(parts.slice(from))
}
