// Interfaces of the indexer's engine: the sink of rows and the query engine.
// Adapters: duckdb/ (embedded, with process isolation) and clickhouse/ (any server with HTTP).
//
//   feeds    -> writer process: rows/ -> RowSink.write(batches, marks)    durable when it resolves
//   query program -> QueryEngine.run(query, ticket) -> bytes in the requested format to the gateway
import type { QueryError } from './clickhouse/exceptions.ts'
import type { OutputOptions } from './clickhouse/formats/formats.ts'
import type { Statement } from './clickhouse/sql/parameters.ts'
import type { EventFact, FactMark, TipFact, UsageFact } from './feed-items.ts'
import type { PlanLimits, QueryTotals } from './queries/protocol.ts'
import type { Database, TableName } from './tables.ts'

/** 64-bit integers are bigints or safe integers; times are counts of the column's own unit. */
export type Cell = string | number | bigint | readonly string[] | null

/** Rows of one table, by column in the table's order; all columns are of length `count`. */
export interface RowBatch {
  readonly table: TableName
  readonly count: number
  readonly columns: readonly (readonly Cell[])[]
}

/**
 * High-water marks: the last durable slot, and seq of events; absent before the first. Tips and
 * queries are numbered by each run of each gateway.
 */
export type Marks = Readonly<{ slots?: number; events?: number; [run: FactMark]: number }>

/** What a sink reports beside its writes. */
export interface SinkEvents {
  failed(message: string): void
  /** Active parts of each ClickHouse table, in its fullest partition. */
  parts(counts: Readonly<Record<string, number>>): void
  /** Another program wrote meanwhile: this one ends, and the next one begins at the marks. */
  superseded?(message: string): void
}

export interface RowSink {
  /** Marks of the last durable write. */
  marks(): Promise<Marks>
  /**
   * Writes rows and marks; both survive a crash once this resolves. Rows are deduplicated by key:
   * writing a key again changes nothing. Rejects with a Fault; `retryable` when a retry may help.
   */
  write(batches: readonly RowBatch[], marks: Marks): Promise<void>
  /**
   * Hashes of the blocks that the index has in these slots, both included; '' for one that has
   * fewer transactions than its block.
   */
  blockhashes(from: number, to: number): Promise<ReadonlyMap<number, string>>
  /**
   * The chain restarted at slot `from`: deletes the rows of slots `from` to `to` (both
   * included) in every table of the feed `slots`, and sets its mark to `from - 1`. Durable when it
   * resolves. Rare; may be slow.
   */
  cut(from: number, to: number): Promise<void>
  stop(): Promise<void>
}

export interface Query {
  /** Chosen by the customer: unique only among the running queries of its subscription. */
  readonly id: string
  /** The caller's subscription; decides which rows of `usage` are visible. */
  readonly subscription: string
  readonly statement: Statement
  /** A name of formats.ts. */
  readonly format: string
  readonly limits: QueryLimits
  /** Database of table names without one; `chain` when absent. */
  readonly database?: Database | undefined
  /** Of the query's meaning, and of the output where only a server has them: `join_use_nulls`. */
  readonly settings?: Readonly<Record<string, string>> | undefined
  readonly output: OutputOptions
}

export interface QueryLimits extends PlanLimits {
  /** At the limits `rows` and `resultBytes`: fail the query, or truncate the result. */
  readonly overflow: 'throw' | 'break'
}

export interface QueryEngine {
  readonly name: 'duckdb' | 'clickhouse'
  /** For `X-Sluice-Engine` and `SELECT version()`. */
  readonly version: string
  /** Sends the result to the gateway's result socket, under the ticket. */
  run(query: Query, ticket: string): SentQuery
  stop(): Promise<void>
}

export interface SentQuery {
  /** Resolves when everything was sent, or the query failed. Never rejects. */
  readonly ended: Promise<QueryEnd>
  /** Cancels the query; it then ends with 394 QUERY_WAS_CANCELLED. */
  cancel(): void
  /** Time in which its reader is slow does not count as the query's. */
  slowed(isSlow: boolean): void
  /** What is known of its result so far. */
  totals(): QueryTotals
}

export interface QueryEnd {
  readonly error: QueryError | null
  /** Bytes of the result; null: it was cut, and what was not passed on is dropped. */
  readonly sent: number | null
  readonly totals: QueryTotals
  /** It did not run, because too many do or because an earlier one had to be killed. */
  readonly isRefused?: boolean
}

// What the feeds give the writer: encoded bytes as the gateway sends them, plus a few facts.
//
//   feed/: slots, events, tips, usage -> Delivery -> rows/ -> RowSink

/** Parcels that are written together. */
export interface Delivery {
  readonly parcels: readonly Parcel[]
  /** Position of each feed once this delivery is durable. */
  readonly marks: Marks
}

/** One update for the index, with what the intake must know about it. */
export type Parcel = {
  readonly bytes: number
  /** Monotonic milliseconds at which the update happened. */
  readonly sinceMs: number
  /** Position of its feed once this parcel is durable; null when it does not advance. */
  readonly mark: number | null
  /** Where the gateway's feed continues after it; of an item. */
  readonly cursor?: FeedCursor
} & (
  | { readonly feed: 'slots'; readonly content: SlotParcel; readonly cut: Cut | null }
  | { readonly feed: 'events'; readonly content: EventFact }
  | { readonly feed: 'tips'; readonly content: TipFact }
  | { readonly feed: 'usage'; readonly content: UsageFact }
)

/** Where a reader is in a feed of the gateway; in whatever run for ''. */
export interface FeedCursor {
  readonly run: string
  readonly seq: number
}

/** Of the events, and the last fact of each run of a gateway. */
export type FeedCursors = Readonly<{ events?: FeedCursor; [run: FactMark]: number }>

/**
 * A slot that the index may have. When its block at `from` has another hash, the chain restarted
 * there: the rows from there on are deleted before the rest is written.
 */
export interface Cut {
  readonly from: number
  readonly blockhash: string
  readonly indexed: Indexed
}

/** The index may have slots up to `to`. One object for all slots of a stream. */
export interface Indexed {
  readonly to: number
}

/** A confirmed slot, or one piece of a large one. */
export interface SlotParcel {
  readonly slot: number
  /** Seconds since 1970; 0 when it is not known. */
  readonly blockTime: number
  /** Set in the last piece. */
  readonly block: BlockFacts | null
  /** One encoded SubscribeUpdateTransactionInfo each. */
  readonly transactions: readonly Uint8Array[]
  /** Records of `packAccounts`. */
  readonly accounts: Uint8Array
}

export interface BlockFacts {
  readonly parentSlot: number
  readonly blockhash: string
  readonly height: number
  readonly txCount: number
}

/** A write of an account, without its data: only the length is kept. */
export interface AccountFact {
  readonly pubkey: Uint8Array
  readonly owner: Uint8Array
  readonly lamports: bigint
  readonly writeVersion: bigint
  readonly dataBytes: number
  /** Index in the block of the transaction that wrote it; `noTransaction` when none did. */
  readonly index: number
}

export const noTransaction = 0xffffffff

// pubkey[32] owner[32] lamports u64 write version u64 data length u32 index u32, little-endian
export const accountRecordBytes = 88

export function packAccounts(accounts: readonly AccountFact[]): Buffer {
  const bytes = Buffer.allocUnsafe(accounts.length * accountRecordBytes)
  accounts.forEach((account, number) => {
    const at = number * accountRecordBytes
    bytes.set(account.pubkey, at)
    bytes.set(account.owner, at + 32)
    bytes.writeBigUInt64LE(account.lamports, at + 64)
    bytes.writeBigUInt64LE(account.writeVersion, at + 72)
    bytes.writeUInt32LE(account.dataBytes, at + 80)
    bytes.writeUInt32LE(account.index, at + 84)
  })
  return bytes
}

export function* unpackAccounts(packed: Uint8Array): Generator<AccountFact> {
  const bytes = Buffer.from(packed.buffer, packed.byteOffset, packed.length)
  for (let at = 0; at + accountRecordBytes <= bytes.length; at += accountRecordBytes)
    yield {
      pubkey: bytes.subarray(at, at + 32),
      owner: bytes.subarray(at + 32, at + 64),
      lamports: bytes.readBigUInt64LE(at + 64),
      writeVersion: bytes.readBigUInt64LE(at + 72),
      dataBytes: bytes.readUInt32LE(at + 80),
      index: bytes.readUInt32LE(at + 84),
    }
}
