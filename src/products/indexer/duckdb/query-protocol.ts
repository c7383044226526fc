// What the server and a query process say to each other. Thread: any. Types and names only: the
// server must not load the engine for them.
import type { OutputFormat, QueryError, QueryLimits, Statement } from '../engine.ts'
import type { Snapshot } from './store-files.ts'

/** The file descriptor of result bytes in the process; frames have the one before it. */
export const resultPipe = 4

export interface QueryPlace {
  readonly folder: string
  /** A folder of its own below the index's folder. */
  readonly scratch: string
  readonly memoryBytes: number
  readonly rssBytesMax: number
  readonly threads: number
}

/** What a process says when it is prepared. */
export interface QueryGreeting {
  readonly version: string
}

export interface QueryJob {
  readonly subscription: string
  readonly statement: Statement
  readonly format: OutputFormat
  readonly limits: QueryLimits
  readonly quotes64: boolean
  readonly snapshot: Snapshot
}

export interface QueryReport {
  readonly rows: number
  /** Bytes that went into the pipe. */
  readonly bytes: number
  readonly error: QueryError | null
  /** The view was too old to be opened; nothing ran. */
  readonly isStale: boolean
}
