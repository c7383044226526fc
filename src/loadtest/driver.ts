// The contract between the load generator and a protocol. Thread: load.

/** One protocol's connections to the endpoint under load. */
export interface Driver {
  /** Connects and makes one call outside the count; a sentence when the load cannot start. */
  open(): Promise<string | null>
  /** True while a call can be sent at once. */
  isFree(): boolean
  /** Starts call number `call`; only while `isFree`. */
  send(call: number, ticket: number): void
  /** Gives up a call that was sent: its answer is no longer waited for. */
  abandon(ticket: number): void
  /** A sentence when the endpoint is gone for good, else null. */
  failure(nowMs: number): string | null
  readonly reconnects: number
  /** Messages that came without being asked for: notifications of subscriptions. */
  readonly notifications: number
  /** The limit that the endpoint named when it refused a call for it, else null. */
  readonly policy: string | null
  /**
   * Waits up to `timeoutMs` and handles what arrived; returns the number of events. Null where
   * Node's event loop does it. Known after `open`.
   */
  readonly poll: ((timeoutMs: number) => number) | null
  close(): void
}

export interface DriverEvents {
  /** The answer to a ticket is complete; `code` is '' or names the error. */
  done(ticket: number, code: string): void
  /** A call can be sent again. */
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

/** The sentence for a first call that ended with `code`; null when the load may start. */
export function probeProblem(code: string, { token }: Pick<DriverTarget, 'token'>): string | null {
  if (/^(HTTP 401|HTTP 403|grpc 7|grpc 16)$/.test(code))
    return `the endpoint refused the ${token === null ? 'call without a token' : 'token'} (${code})`
  if (code === 'timeout') return 'the endpoint accepts connections but did not answer a call'
  if (code === 'closed') return 'the endpoint closed the connection instead of answering a call'
  if (/^not /.test(code)) return `the endpoint is ${code}`
  return null
}
