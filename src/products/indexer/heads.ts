// Header lines and error answers of the indexer's door. Thread: main. Pure.
import { Head, Reply, withRetryAfter } from '../../transport/reply.ts'
import type { OutputFormat, QueryError, QueryTotals } from './engine.ts'
import { exception, exceptionText, statusOf } from './exceptions.ts'
import { contentTypes } from './formats.ts'
import type { Freshness } from './ingest.ts'

const common = {
  'x-clickhouse-server-display-name': 'sluice',
  'x-clickhouse-timezone': 'UTC',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
}
const plainHead = Head.of({ 'content-type': 'text/plain; charset=UTF-8', ...common })
const resultHeads = Object.fromEntries(
  Object.entries(contentTypes).map(([format, type]) => [
    format,
    Head.of({ 'content-type': type, 'x-clickhouse-format': format, ...common }),
  ]),
) as Readonly<Record<OutputFormat, Head>>

export const okReply = new Reply(200, plainHead, 'Ok.\n')

/** One text for every way in which credentials can be wrong. */
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

export interface Told {
  readonly queryId: string
  /** Name and version. */
  readonly engine: string
  readonly freshness: Freshness
}

export function resultHead(format: OutputFormat, told: Told, totals: QueryTotals): Head {
  const head = withTold(resultHeads[format], told)
  return head.and('x-clickhouse-summary', summaryOf(totals))
}

export function errorReply(error: QueryError, told: Told | null, retryAfterMs?: number): Reply {
  const base = told === null ? plainHead : withTold(plainHead, told)
  const head = base.and('x-clickhouse-exception-code', String(error.code))
  return new Reply(statusOf(error), withRetryAfter(head, retryAfterMs), exceptionText(error))
}

function withTold(base: Head, { queryId, engine, freshness }: Told): Head {
  let head = base.and('x-clickhouse-query-id', queryId).and('x-sluice-engine', engine)
  const { slot, slotAgeMs, block, blockAgeMs } = freshness
  for (const [name, value] of [
    ['x-sluice-last-slot', slot],
    ['x-sluice-last-slot-age-ms', slotAgeMs],
    ['x-sluice-last-block', block],
    ['x-sluice-last-block-age-ms', blockAgeMs],
  ] as const)
    if (value !== null) head = head.and(name, String(Math.round(value)))
  return head
}

/** Numbers are texts, as ClickHouse writes them; what nobody counted is left out. */
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

/** The door's own errors, which no query stands behind. */
export function doorError(status: number, message: string): Reply {
  const error = exception(
    doorNames[status] ?? 'BAD_ARGUMENTS',
    status === 404 ? 'nothing is here: queries go to /, health checks to /ping' : message,
  )
  const reply = errorReply(error, null, status === 429 ? BUSY_RETRY_MS : undefined)
  return new Reply(status, reply.head, reply.body)
}

export const BUSY_RETRY_MS = 1_000

const doorNames: Readonly<Record<number, Parameters<typeof exception>[0]>> = {
  408: 'SOCKET_TIMEOUT',
  413: 'TOO_MANY_BYTES',
  429: 'TOO_MANY_SIMULTANEOUS_QUERIES',
  500: 'UNKNOWN_EXCEPTION',
}
