// Messages between the query program and a query process. Types only: the program must not load
// DuckDB for them.

import type { QueryError } from '../clickhouse/exceptions.ts'
import type { Query } from '../engine.ts'
import type { ResultAddress } from '../queries/protocol.ts'
import type { StoreSnapshot } from './store-files.ts'

export interface QueryProcessConfig {
  readonly folder: string
  /** The process's own folder below the index's folder. */
  readonly scratch: string
  readonly memoryBytes: number
  readonly rssBytesMax: number
  readonly threads: number
  readonly results: ResultAddress
}

/** Sent by a process when it is ready. */
export interface QueryGreeting {
  readonly version: string
}

export interface QueryJob extends Omit<Query, 'id'> {
  readonly snapshot: StoreSnapshot
  /** Under which its bytes are sent. */
  readonly ticket: string
}

export interface QueryReport {
  readonly rows: number
  /** Rows read from tables. */
  readonly readRows: number
  /** Bytes that were sent. */
  readonly bytes: number
  readonly error: QueryError | null
  /** A file of the snapshot could not be opened any more; nothing ran. */
  readonly isStale: boolean
}
