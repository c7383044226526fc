// Messages between the server and a query process. Types and names only: the server
// must not load DuckDB for them.

import type { QueryError } from '../clickhouse/exceptions.ts'
import type { Query } from '../engine.ts'
import type { StoreSnapshot } from './store-files.ts'

/** File descriptor of the result bytes in the process; frames use the one before it. */
export const resultPipe = 4

export interface QueryProcessConfig {
  readonly folder: string
  /** The process's own folder below the index's folder. */
  readonly scratch: string
  readonly memoryBytes: number
  readonly rssBytesMax: number
  readonly threads: number
}

/** Sent by a process when it is ready. */
export interface QueryGreeting {
  readonly version: string
}

export interface QueryJob extends Omit<Query, 'id'> {
  readonly snapshot: StoreSnapshot
}

export interface QueryReport {
  readonly rows: number
  /** Rows read from tables. */
  readonly readRows: number
  /** Bytes that went into the pipe. */
  readonly bytes: number
  readonly error: QueryError | null
  /** A file of the snapshot could not be opened any more; nothing ran. */
  readonly isStale: boolean
}
