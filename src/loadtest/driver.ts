// The contract between the load generator and a protocol. Thread: load.

/** One protocol's connections to the endpoint under load. */
export interface Driver {
  /** Connects and makes one call outside the count; a sentence when the load cannot start. */
  open(): Promise<string | null>
  /** Starts call number `call`; false when every connection is busy: it is offered again. */
  trySend(call: number, ticket: number): boolean
  /** Gives up a call that was sent: its answer is no longer waited for. */
  abandon(ticket: number): void
  /** A sentence when the endpoint is gone for good, else null. */
  failure(nowMs: number): string | null
  readonly reconnects: number
  close(): void
}

export interface DriverEvents {
  /** The answer to a ticket is complete; `code` is '' or names the error. */
  done(ticket: number, code: string): void
  /** A connection is free again. */
  free(): void
}

/** What a driver needs to reach the endpoint; sent to the load thread. */
export interface DriverTarget {
  readonly kind: string
  readonly url: string
  readonly token: string | null
  readonly connections: number
  /** The calls of the plan, one string each, in the form of the kind. */
  readonly calls: readonly string[]
  readonly connectMsMax: number
}
