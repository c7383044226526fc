// What the gateway and its query program send each other. No SQL is loaded for them.
//
//   gateway ── query(request) ──────────► program   reads URL, body, SQL, settings
//           ◄─ begin: head of the result ─          it needs a permit of the plan
//           ── permit ──────────────────►           the engine runs it
//           ◄═ bytes, under the ticket ═══ query process, to the gateway's result socket
//           ── slowed, totals, cancel ──►
//           ◄─ answer of the call ────────          totals, or the error and its reply
import type { QueryError } from '../clickhouse/exceptions.ts'

/** A multipart body may contain parameters in addition to the query. */
export const bodyBytesMax = 1_048_576

/** Of the caller's plan. */
export interface PlanLimits {
  readonly timeMs: number
  readonly rows: number
  readonly resultBytes: number
  readonly memoryBytes: number
}

/** A request after its credentials were checked; it contains none. */
export interface QueryRequest {
  /** Names the request in both processes, and its bytes on the result socket: 32 hex digits. */
  readonly ticket: string
  readonly subscription: string
  readonly plan: PlanLimits
  /** Of a query whose caller sets no query_id. */
  readonly queryId: string
  /** The caller's query_id contains its token or password. */
  readonly isIdSecret: boolean
  /** What follows the `?`. */
  readonly url: string
  /** Headers; '' is absent. */
  readonly database: string
  readonly format: string
  readonly contentType: string
  /** Lower-case. */
  readonly contentEncoding: string
  readonly body: Uint8Array
}

export type HeaderLines = Readonly<Record<string, string>>

export const commonHeaders: HeaderLines = {
  'x-clickhouse-server-display-name': 'sluice',
  'x-clickhouse-timezone': 'UTC',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
}
export const plainHeaders: HeaderLines = {
  'content-type': 'text/plain; charset=UTF-8',
  ...commonHeaders,
}

/** A query that was read and needs a permit. */
export interface QueryBegin {
  readonly ticket: string
  readonly queryId: string
  /** The statement without literals; '' where none is logged. */
  readonly fingerprint: string
  /** Of the result, without its totals and without how fresh the rows are. */
  readonly headers: HeaderLines
  /** Nothing is sent before the end, as far as the result can be buffered. */
  readonly isWhole: boolean
  readonly sendsProgress: boolean
  /** The URL asks for a compressed response. */
  readonly isCompressed: boolean
  /** Marks the exception in a result that fails after its first bytes. */
  readonly tag: string
}

export interface QueryTotals {
  readonly rows: number
  readonly bytes: number
  readonly elapsedMs: number
  /** Rows and bytes read to compute the result, where the engine reports them. */
  readonly readRows?: number
  readonly readBytes?: number
}

export const noTotals: QueryTotals = { rows: 0, bytes: 0, elapsedMs: 0 }

/** The last message of a request. */
export interface QueryAnswer {
  readonly queryId: string
  readonly error: QueryError | null
  /** Without a result, and instead of one that failed before its first byte was sent. */
  readonly reply: {
    readonly status: number
    readonly headers: HeaderLines
    readonly body: string
  } | null
  /** What follows the bytes of a result that failed later. */
  readonly tail: Uint8Array | null
  /** Bytes of the result; null: the rest of them is dropped. */
  readonly sent: number | null
  readonly totals: QueryTotals
  /** By KILL QUERY. */
  readonly isKilled: boolean
  /** It did not become a query: no row in `usage`, and no credit. */
  readonly isRefused: boolean
  readonly isCompressed: boolean
}

/** Where a process sends results: a Unix socket, and the secret of this start. */
export interface ResultAddress {
  readonly path: string
  readonly secret: string
}

/** What the gateway shows of the program's engine and tables. */
export interface QueryGreeting {
  /** Name and version. */
  readonly engine: string
  /** Column types by name, of the tables that the page at /play lists. */
  readonly tables: readonly {
    readonly name: string
    readonly columns: Readonly<Record<string, string>>
    readonly key: readonly string[]
  }[]
}
