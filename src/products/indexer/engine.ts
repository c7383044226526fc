// The port of the indexer's engine: where rows go and queries run. Thread: any (types only).
// Adapters: duckdb/ (embedded, behind process isolation) and clickhouse/ (any server with HTTP).
//
//   feeds -> writer process: rows/ -> RowSink.write(batches, marks)       durable when it resolves
//   door  -> QueryEngine.run(query) -> bytes in the format that was asked for, at the reader's pace
import type { FeedName, TableName } from './tables.ts'

/** 64-bit integers are bigints or safe numbers; times are numbers or bigints of their own unit. */
export type Cell = string | number | bigint | readonly string[]

/** Rows of one table, by column in the table's order; all columns are of length `count`. */
export interface RowBatch {
  readonly table: TableName
  readonly count: number
  readonly columns: readonly (readonly Cell[])[]
}

/** How far each feed has been taken in: the last slot, the last seq. Absent before the first. */
export type Marks = Readonly<Partial<Record<FeedName, number>>>

export interface RowSink {
  /** How long rows may wait for company; a sink to which a write is dear says more. */
  readonly lingerMs: number
  /** What the last durable write said. */
  marks(): Promise<Marks>
  /**
   * Takes rows and marks in as one; both survive a crash once this resolves. Rows whose keys are
   * there already change nothing. Rejects with a Fault; `retryable` says whether again helps.
   */
  write(batches: readonly RowBatch[], marks: Marks): Promise<void>
  /**
   * The embedded chain began again at slot `from`: forgets the rows of slots `from` to `to` (both
   * included) in every table of the feed `slots`, and sets its mark to `from - 1`. Durable when it
   * resolves. Rare; may take its time.
   */
  cut(from: number, to: number): Promise<void>
  stop(): Promise<void>
}

export const outputFormats = [
  'JSON',
  'JSONEachRow',
  'JSONCompact',
  'JSONCompactEachRow',
  'CSV',
  'CSVWithNames',
  'TabSeparated',
  'TabSeparatedWithNames',
  'Parquet',
] as const
export type OutputFormat = (typeof outputFormats)[number]

/** A value of a `{name:Type}` place, checked against its type by sql/. */
export interface TypedValue {
  /** As ClickHouse writes it: `UInt64`, `Array(String)`, `Nullable(DateTime64(3))`. */
  readonly type: string
  readonly value: string | readonly TypedValue[] | null
}

/** One statement without FORMAT and SETTINGS; `texts` has one part more than `values`. */
export interface Statement {
  readonly texts: readonly string[]
  readonly values: readonly TypedValue[]
}

export interface Query {
  /** Chosen by the customer: unique among the running ones of its subscription only. */
  readonly id: string
  /** Whose it is; decides what `usage` shows. */
  readonly subscription: string
  readonly statement: Statement
  readonly format: OutputFormat
  readonly limits: QueryLimits
  /** 64-bit integers as JSON texts. */
  readonly quotes64: boolean
}

export interface QueryLimits {
  readonly timeMs: number
  readonly rows: number
  readonly resultBytes: number
  readonly memoryBytes: number
  /** What happens at `rows` and `resultBytes`: an error, or the end of the result. */
  readonly overflow: 'throw' | 'break'
}

/** What ClickHouse calls an exception: its number and upper-case name, and a sentence. */
export interface QueryError {
  readonly code: number
  readonly name: string
  readonly message: string
}

export interface QueryTotals {
  readonly rows: number
  readonly bytes: number
  readonly elapsedMs: number
  /** What was read to find them, where the engine tells. */
  readonly readRows?: number
  readonly readBytes?: number
}

/** A result whose first bytes are there. */
export interface QueryResult {
  /**
   * The rest, at the pace it is read. Ends early with `failed()` set when the query failed after
   * it had begun to answer.
   */
  readonly chunks: AsyncIterable<Uint8Array>
  /** What went wrong after the first bytes; null when all is there. Asked when `chunks` ended. */
  failed(): QueryError | null
  totals(): QueryTotals
}

export interface RunningQuery {
  /** Resolves when the first bytes are there or the query has failed. Never rejects. */
  readonly started: Promise<QueryOutcome>
  /** Stops it wherever it is; `started` or `failed()` then tell 394 QUERY_WAS_CANCELLED. */
  cancel(): void
}
export type QueryOutcome =
  | { readonly ok: true; readonly result: QueryResult }
  | { readonly ok: false; readonly error: QueryError }

export interface QueryEngine {
  readonly name: 'duckdb' | 'clickhouse'
  /** For `X-Sluice-Engine` and `SELECT version()`. */
  readonly version: string
  run(query: Query): RunningQuery
  stop(): Promise<void>
}
