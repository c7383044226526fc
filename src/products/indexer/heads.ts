// Response headers and error replies of the indexer's endpoint.
import { Reply, ResponseHead, withRetryAfter } from '../../base/transport/reply.ts'
import {
  exception,
  exceptionText,
  type QueryError,
  statusOf,
} from '../../indexer/clickhouse/exceptions.ts'
import type { Freshness } from '../../indexer/ingest.ts'
import {
  type HeaderLines,
  plainHeaders,
  type QueryAnswer,
  type QueryBegin,
  type QueryTotals,
} from '../../indexer/queries/protocol.ts'

const plainHead = ResponseHead.of(plainHeaders)

export const okReply = new Reply(200, plainHead, 'Ok.\n')

/** For a browser; clients compare the text above. */
export const browserReply = new Reply(
  200,
  plainHead.and('vary', 'accept'),
  "This is Sluice's indexer: SQL over ClickHouse's HTTP interface. Open /play to try it; " +
    'docs/api/indexer.md has the tables.\n',
)

/** The same text for every kind of wrong credentials. */
export const unauthorizedReply = new Reply(
  401,
  plainHead.and('x-clickhouse-exception-code', '516').and('www-authenticate', 'Basic'),
  exceptionText(
    exception(
      'AUTHENTICATION_FAILED',
      'Authentication failed: a query carries database user, password and x-token of one active ' +
        'subscription to the indexer, in headers',
    ),
  ),
)

export interface ResponseInfo {
  readonly queryId: string
  /** Name and version. */
  readonly engine: string
  readonly freshness: Freshness
}

/** Of a result that is complete, or of one whose first bytes are sent. */
export function resultHead(
  { headers, sendsProgress }: Pick<QueryBegin, 'headers' | 'sendsProgress'>,
  freshness: Freshness,
  totals: QueryTotals,
): ResponseHead {
  const head = withFreshness(headers, freshness)
  const summary = summaryOf(totals)
  // The head is sent at once, so there is one progress, of the time of the first byte.
  const progress = sendsProgress ? head.and('x-clickhouse-progress', summary) : head
  return progress.and('x-clickhouse-summary', summary)
}

/** What the program replies instead of a result. */
export function programReply({ reply, error, totals }: QueryAnswer, freshness: Freshness): Reply {
  const { status, headers, body } = reply!
  const head =
    error === null
      ? resultHead({ headers, sendsProgress: false }, freshness, totals)
      : withFreshness(headers, freshness)
  return new Reply(status, head, body)
}

export function errorReply(
  error: QueryError,
  info: ResponseInfo | null,
  retryAfterMs?: number,
): Reply {
  const base = info === null ? plainHead : withInfo(plainHead, info)
  const head = base.and('x-clickhouse-exception-code', String(error.code))
  return new Reply(statusOf(error), withRetryAfter(head, retryAfterMs), exceptionText(error))
}

function withInfo(base: ResponseHead, { queryId, engine, freshness }: ResponseInfo): ResponseHead {
  const head = base.and('x-clickhouse-query-id', queryId).and('x-sluice-engine', engine)
  return linesOf(freshness).reduce((before, line) => before.and(...line), head)
}

/** Headers of the program, with how fresh the rows are after its engine. */
function withFreshness(headers: HeaderLines, freshness: Freshness): ResponseHead {
  const lines = Object.entries(headers)
  const at = 1 + lines.findIndex(([name]) => name === 'x-sluice-engine')
  return ResponseHead.of(Object.fromEntries(lines.toSpliced(at, 0, ...linesOf(freshness))))
}

function linesOf({ slot, slotAgeMs, block, blockAgeMs }: Freshness): [string, string][] {
  const all = [
    ['x-sluice-last-slot', slot],
    ['x-sluice-last-slot-age-ms', slotAgeMs],
    ['x-sluice-last-block', block],
    ['x-sluice-last-block-age-ms', blockAgeMs],
  ] as const
  return all.flatMap(([name, value]) => (value === null ? [] : [[name, `${Math.round(value)}`]]))
}

/** Numbers are strings, as in ClickHouse; counts that the engine does not report are omitted. */
function summaryOf({ rows, bytes, elapsedMs, readRows, readBytes }: QueryTotals): string {
  return JSON.stringify({
    ...(readRows === undefined ? {} : { read_rows: String(readRows) }),
    ...(readBytes === undefined ? {} : { read_bytes: String(readBytes) }),
    written_rows: '0',
    written_bytes: '0',
    result_rows: String(rows),
    result_bytes: String(bytes),
    elapsed_ns: String(Math.round(elapsedMs * 1e6)),
  })
}

/** For the page of an origin that `indexer.cors` lists; null for every other. */
export function corsHeaders(origins: readonly string[], origin: string): CorsHeaders | null {
  if (origin === '' || !(origins.includes(origin) || origins.includes('*'))) return null
  return { 'access-control-allow-origin': origin, vary: 'origin' }
}

type CorsHeaders = Readonly<Record<string, string>>

/** Adds what a page needs to read a response. */
export function withCors(reply: Reply, cors: CorsHeaders | null): Reply {
  if (cors === null) return reply
  let head = reply.head.and('access-control-expose-headers', exposed)
  for (const [name, value] of Object.entries(cors)) head = head.and(name, value)
  return new Reply(reply.status, head, reply.body, reply.isLast)
}

export function preflightReply(cors: CorsHeaders): Reply {
  const head = ResponseHead.of({
    ...cors,
    'access-control-allow-methods': 'GET, POST, HEAD, OPTIONS',
    'access-control-allow-headers':
      'authorization, x-token, content-type, content-encoding, accept-encoding, ' +
      'x-clickhouse-user, x-clickhouse-key, x-clickhouse-database, x-clickhouse-format',
    'access-control-max-age': '86400',
  })
  return new Reply(204, head)
}

const exposed =
  'x-clickhouse-query-id, x-clickhouse-summary, x-clickhouse-progress, ' +
  'x-clickhouse-exception-code, ' +
  'x-clickhouse-exception-tag, x-clickhouse-format, x-clickhouse-timezone, ' +
  'x-clickhouse-server-display-name, x-sluice-engine, x-sluice-last-slot, x-sluice-last-block'

/** Errors of the endpoint itself, without a query. */
export function endpointError(status: number, message: string): Reply {
  const error = exception(
    endpointErrors[status] ?? 'BAD_ARGUMENTS',
    status === 404 ? 'nothing is here: queries go to /, health checks to /ping' : message,
  )
  const reply = errorReply(error, null, status === 429 ? BUSY_RETRY_MS : undefined)
  return new Reply(status, reply.head, reply.body)
}

export const BUSY_RETRY_MS = 1_000

const endpointErrors: Readonly<Record<number, Parameters<typeof exception>[0]>> = {
  408: 'SOCKET_TIMEOUT',
  413: 'TOO_MANY_BYTES',
  429: 'TOO_MANY_SIMULTANEOUS_QUERIES',
  500: 'UNKNOWN_EXCEPTION',
}
