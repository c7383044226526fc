// The three families of errors: refusals (values), faults (external failures) and bugs (`assert`).
// Has the only table from a refusal to HTTP status, gRPC status, JSON-RPC code and WebSocket close
// code.

export type RefusalKind =
  | 'unauthenticated'
  | 'exhausted'
  | 'invalid'
  | 'unknown-method'
  | 'not-found'
  | 'rejected'
  | 'unavailable'

/** The caller's mistake, expected: answered and counted, never logged, never thrown. */
export interface Refusal {
  readonly kind: RefusalKind
  /** Stable; clients may match on it. */
  readonly code: string
  /** Helps the caller; never echoes a token, a password or a query string. */
  readonly message: string
  readonly retryAfterMs?: number
  readonly data?: unknown
}

export type Outcome<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly refusal: Refusal }

export function accept<T>(value: T): Outcome<T> {
  return { ok: true, value }
}

export function refuse(
  kind: RefusalKind,
  code: string,
  message: string,
  extra?: { retryAfterMs?: number; data?: unknown },
): { readonly ok: false; readonly refusal: Refusal } {
  return { ok: false, refusal: { kind, code, message, ...extra } }
}

/** An expected external failure: a closed socket, an upstream down, a full disk. */
export class Fault extends Error {
  readonly kind: string
  readonly retryable: boolean

  constructor(kind: string, message: string, options?: { cause?: unknown; retryable?: boolean }) {
    super(message, options?.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'Fault'
    this.kind = kind
    this.retryable = options?.retryable ?? false
  }
}

/** True for what the world did: a `Fault`, or an error of the system or of LMDB with its number. */
export function isFault(error: unknown): boolean {
  if (error instanceof Fault) return true
  if (!(error instanceof Error)) return false
  // LMDB rejects promises of its own, out of reach, when a commit fails, as on a full disk.
  if ('commitError' in error) return true
  const code = 'code' in error ? error.code : null
  return typeof code === 'number' || (typeof code === 'string' && /^E(?!RR_)[A-Z]/.test(code))
}

/** The message of any thrown value. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

interface Codes {
  readonly http: number
  readonly grpc: number
  readonly jsonrpc: number
  readonly close: number
}

/** Errors: a missing token is 401 on HTTP and PermissionDenied on gRPC. */
export const codesOf: Readonly<Record<RefusalKind, Codes>> = {
  unauthenticated: { http: 401, grpc: 7, jsonrpc: -32401, close: 1008 },
  // Not near -32005: clients read those codes as a state of the chain and retry in loops.
  exhausted: { http: 429, grpc: 8, jsonrpc: -32429, close: 1013 },
  invalid: { http: 400, grpc: 3, jsonrpc: -32602, close: 1007 },
  'unknown-method': { http: 404, grpc: 12, jsonrpc: -32601, close: 1008 },
  'not-found': { http: 404, grpc: 5, jsonrpc: -32602, close: 1008 },
  rejected: { http: 400, grpc: 9, jsonrpc: -32602, close: 1008 },
  // -32005 is Solana's "node is unhealthy".
  unavailable: { http: 503, grpc: 14, jsonrpc: -32005, close: 1013 },
}

/** JSON-RPC code of an error that the listener itself answers with this HTTP status. */
export function rpcCodeOf(status: number): number {
  if (status === codesOf.exhausted.http) return codesOf.exhausted.jsonrpc
  return status === 500 ? -32603 : -32600
}

const BROKEN = 'invariant broken: '

/** A broken invariant is our bug: the process must stop, loudly. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`${BROKEN}${message}`)
}

/** True for an error of `assert`; code that catches a request's errors must rethrow it. */
export function isBrokenInvariant(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith(BROKEN)
}

/** True for an error caused by a bug of ours; code that catches everything must rethrow it. */
export function isBug(error: unknown): boolean {
  if (!(error instanceof Error)) return true
  if (isBrokenInvariant(error)) return true
  return (error instanceof TypeError || error instanceof ReferenceError) && !('code' in error)
}

/**
 * Wraps `action` so that its faults, also those of its promise, go to `report`: in timers, message
 * handlers and file watches no caller would catch them. A bug still ends the process, loudly.
 */
export function guarded<Given extends readonly unknown[]>(
  action: (...given: Given) => unknown,
  report: (fault: unknown) => void,
): (...given: Given) => void {
  const caught = (error: unknown) => {
    if (isBug(error)) throw error
    report(error)
  }
  return (...given) => {
    try {
      const done = action(...given)
      if (done instanceof Promise) done.catch(caught)
    } catch (error) {
      caught(error)
    }
  }
}
