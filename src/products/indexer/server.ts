// Opens the indexer's endpoint: ClickHouse's HTTP interface.
//
//   transport      -> preflight of a listed origin
//                  -> open: GET /, /ping, /play
//                  -> admit: Basic or X-ClickHouse-User/-Key, and x-token (401); with
//                     `indexer.tokenInPassword` both in the password
//                  -> path 404 -> verb 405 -> IndexerHandler -> query program -> answer
//
// The spec names the credentials and leaves the interface open. "ClickHouse wire, DuckDB SQL".
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Running } from '../../base/running.ts'
import { LogThrottle } from '../../base/telemetry/log.ts'
import type { HttpOptions } from '../../base/transport/http.ts'
import { type EndpointDeps, openHttpEndpoint } from '../../base/transport/http-endpoint.ts'
import { codingNamed, Reply, ResponseHead } from '../../base/transport/reply.ts'
import type { Request } from '../../base/transport/request.ts'
import { type Gate, registryExpired } from '../../customers/auth/gate.ts'
import { basicPair, tokenInPassword } from '../../customers/auth/token.ts'
import type { QuotaMeters } from '../../customers/quota/meters.ts'
import type { Quota } from '../../customers/quota/quota.ts'
import { exception } from '../../indexer/clickhouse/exceptions.ts'
import type { IndexerSection } from '../../indexer/config.ts'
import type { UsageFact } from '../../indexer/feed-items.ts'
import type { Freshness } from '../../indexer/ingest.ts'
import type { IndexerMeters } from '../../indexer/meters.ts'
import { bodyBytesMax, type QueryGreeting } from '../../indexer/queries/protocol.ts'
import type { QueryRelay } from '../../indexer/queries/service.ts'
import { IndexerHandler } from './handle.ts'
import {
  browserReply,
  corsHeaders,
  endpointError,
  errorReply,
  okReply,
  preflightReply,
  unauthorizedReply,
  withCors,
} from './heads.ts'
import { type Caller, QueryQueue } from './run.ts'

export interface IndexerDeps extends EndpointDeps {
  readonly gate: Gate
  readonly quota: Quota
  readonly quotaMeters: QuotaMeters
  /** The query program; stopped by the code that started it, after the endpoint. */
  readonly queries: QueryRelay
  readonly meters: IndexerMeters
  /** Called for every query that ended, with or without an error. */
  usage(fact: UsageFact): void
  /** For the headers of each response; called per query, so it must be cheap. */
  freshness(): Freshness
}

/** Null: a path that needs no credentials. */
type Context = Caller | null

export function startIndexer(section: IndexerSection, deps: IndexerDeps): Promise<Running> {
  const log = deps.log.area('indexer')
  const queue = new QueryQueue()
  deps.meters.running = () => queue.running
  deps.meters.waiting = () => queue.count
  const handler = new IndexerHandler({
    ...deps,
    queue,
    slowQueryMs: section.slowQueryMs,
    slowLines: new LogThrottle(),
    log,
  })
  const corsOf = (request: Request) => corsHeaders(section.cors, request.header('origin'))
  const http: HttpOptions<Context> = {
    wants: headerNames,
    // Browsers send a preflight without credentials.
    limit: (request) => {
      const cors = corsOf(request)
      return request.method === 'OPTIONS' && cors !== null ? preflightReply(cors) : null
    },
    admit: (request) => {
      const admitted = admit(request, deps, section.tokenInPassword)
      return admitted instanceof Reply ? withCors(admitted, corsOf(request)) : admitted
    },
    inFlightPerAddressMax: section.inFlightPerAddress,
    error: (status, message, request) =>
      withCors(endpointError(status, message), request === null ? null : corsOf(request)),
    routes: [
      {
        verb: 'GET',
        path: '/',
        watchesClient: true,
        // HEAD runs no query, because its result would not be sent.
        handle: async (request, body, caller) => {
          if (caller !== null && request.method !== 'HEAD')
            return withCors(await handler.handle(request, body, caller), corsOf(request))
          const isPage = request.header('accept').includes('text/html')
          return withCors(isPage ? browserReply : okReply, corsOf(request))
        },
      },
      {
        verb: 'POST',
        path: '/',
        bodyBytesMax,
        watchesClient: true,
        check: (request) => (canDecode(request) ? null : undecodable()),
        // Reason for the assertions: only GET paths are open.
        tooLong: async (request, caller, reply) =>
          withCors((await handler.refuse(request, caller!)) ?? reply, corsOf(request)),
        handle: async (request, body, caller) =>
          withCors(await handler.handlePost(request, body, caller!), corsOf(request)),
      },
      { verb: 'GET', path: '/ping', handle: (request) => withCors(okReply, corsOf(request)) },
      { verb: 'GET', path: '/play', handle: () => playReply(deps.queries.greeting.tables) },
    ],
  }
  const { tls, trustedProxies, connectionsPerAddressMax, calls, clock } = deps
  return openHttpEndpoint({
    product: 'indexer',
    listen: { ...section, isShared: deps.sharePorts },
    tls,
    trustedProxies,
    connectionsPerAddressMax,
    calls,
    http,
    clock,
    log,
  })
}

/**
 * Authentication, Indexer: both halves in headers, of one active subscription. `isJoined`: without
 * an `x-token` the password may contain the token.
 */
function admit(request: Request, { gate, quota }: IndexerDeps, isJoined: boolean): Context | Reply {
  if (isOpen(request)) return null
  if (request.parameter('user') !== null || request.parameter('password') !== null)
    return unauthorizedReply
  const { credentials } = request
  const pair = basicPair({
    authorization: credentials.authorization,
    clickHouseUser: request.header('x-clickhouse-user'),
    clickHouseKey: request.header('x-clickhouse-key'),
  })
  const joined = isJoined && pair !== null && !credentials.xToken ? tokenInPassword(pair) : null
  const basic = joined?.basic ?? pair
  const principal = gate.admit('indexer', { ...credentials, basic, ...joined }, request)
  if (principal === null && gate.isExpired()) return endpointError(503, registryExpired.message)
  if (principal === null || basic === null) return unauthorizedReply
  const budget = quota.budgetOf(principal.subscription)
  return { principal, budget, password: basic.password }
}

function isOpen(request: Request): boolean {
  const { method, path } = request
  if (method !== 'GET' && method !== 'HEAD') return false
  return (
    path === '/ping' || path === '/play' || (path === '/' && request.parameter('query') === null)
  )
}

/** Lower-case names of the headers that are read. */
const headerNames = [
  'accept',
  'x-clickhouse-user',
  'x-clickhouse-key',
  'x-clickhouse-database',
  'x-clickhouse-format',
  'accept-encoding',
  'content-encoding',
  'origin',
] as const

/** Whether the body's content encoding is supported; checked before the body is read. */
function canDecode(request: Request): boolean {
  const coding = request.header('content-encoding').toLowerCase()
  return coding === '' || coding === 'identity' || codingNamed(coding) !== null
}

function undecodable(): Reply {
  return errorReply(
    exception(
      'UNKNOWN_COMPRESSION_METHOD',
      'a body may be compressed with gzip, deflate, br or zstd',
    ),
    null,
  )
}

// Serves the page at /play: type SQL, see a table and a chart.
// One document without external references; its Content-Security-Policy allows only its own script
// and style, and requests only to this endpoint. It has no data: queries send their credentials.

let kept: Reply | null = null

function playReply(tables: QueryGreeting['tables']): Reply {
  if (tables.length > 0) kept ??= makeReply(tables)
  return kept ?? makeReply(tables)
}

function makeReply(tables: QueryGreeting['tables']): Reply {
  const style = read('page.css')
  const script = ['chart.js', 'editor.js', 'page.js'].map(read).join('')
  const policy = [
    "default-src 'none'",
    `script-src ${hashOf(script)}`,
    `style-src ${hashOf(style)}`,
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ]
  const head = ResponseHead.of({
    'content-type': 'text/html; charset=UTF-8',
    'content-security-policy': policy.join('; '),
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cache-control': 'no-cache',
  })
  // Functions: in a replacement text `$` has a meaning.
  const page = read('page.html')
    .replace('<style></style>', () => `<style>${style}</style>`)
    .replace('<!-- tables -->', () => tableList(tables))
    .replace('<script></script>', () => `<script>${script}</script>`)
  return new Reply(200, head, page)
}

function read(name: string): string {
  return readFileSync(new URL(`./play/${name}`, import.meta.url), 'utf8')
}

/** The CSP source expression of an inline element's content. */
function hashOf(content: string): string {
  return `'sha256-${createHash('sha256').update(content).digest('base64')}'`
}

/** Names and types are our own: letters, digits, `_` and brackets. */
function tableList(tables: QueryGreeting['tables']): string {
  return tables
    .map(({ name, columns, key }) => {
      const newest = button(`newest rows of ${name}`, { table: name, column: key[0] ?? '' })
      const items = Object.entries(columns).map(
        ([column, type]) => `${button(column, { column })} <small>${type}</small>`,
      )
      const list = [newest, ...items].map((item) => `<li>${item}</li>`).join('\n')
      return `<details><summary>${name}</summary><ul>\n${list}\n</ul></details>`
    })
    .join('\n')
}

function button(text: string, data: Readonly<Record<string, string>>): string {
  const attributes = Object.entries(data).map(([name, value]) => ` data-${name}="${value}"`)
  return `<button type="button"${attributes.join('')}>${text}</button>`
}
