// The three families of errors: refusals (values), faults (external failures), bugs (assert.ts).
// `base/codes.ts` alone maps a refusal to a protocol's status.

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
