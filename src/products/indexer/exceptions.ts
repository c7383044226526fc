// What ClickHouse calls exceptions: their numbers, texts and HTTP statuses. Thread: any (pure).
// The only table from a code to a status. Clients read number and name out of the text, so its
// form is fixed: `Code: 62. DB::Exception: Sentence. (SYNTAX_ERROR)`.
import type { QueryError } from './engine.ts'

/** The names that this room gives and the usual ones of engines, which may tell others. */
export const codeOf = {
  BAD_ARGUMENTS: 36,
  CANNOT_PARSE_TEXT: 6,
  ILLEGAL_TYPE_OF_ARGUMENT: 43,
  UNKNOWN_FUNCTION: 46,
  UNKNOWN_IDENTIFIER: 47,
  NOT_IMPLEMENTED: 48,
  UNKNOWN_TYPE: 50,
  TYPE_MISMATCH: 53,
  UNKNOWN_TABLE: 60,
  SYNTAX_ERROR: 62,
  UNKNOWN_FORMAT: 73,
  CANNOT_OPEN_FILE: 76,
  UNKNOWN_DATABASE: 81,
  UNKNOWN_COMPRESSION_METHOD: 89,
  UNKNOWN_SETTING: 115,
  TOO_MANY_ROWS: 158,
  TIMEOUT_EXCEEDED: 159,
  READONLY: 164,
  QUOTA_EXCEEDED: 201,
  TOO_MANY_SIMULTANEOUS_QUERIES: 202,
  SOCKET_TIMEOUT: 209,
  NETWORK_ERROR: 210,
  QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING: 216,
  MEMORY_LIMIT_EXCEEDED: 241,
  CANNOT_CREATE_CHILD_PROCESS: 301,
  TOO_MANY_BYTES: 307,
  SESSION_NOT_FOUND: 372,
  QUERY_WAS_CANCELLED: 394,
  TOO_MANY_ROWS_OR_BYTES: 396,
  UNKNOWN_QUERY_PARAMETER: 456,
  BAD_QUERY_PARAMETER: 457,
  UNKNOWN_ROLE: 511,
  AUTHENTICATION_FAILED: 516,
  UNKNOWN_EXCEPTION: 1002,
} as const
export type ExceptionName = keyof typeof codeOf

/** A value, or what is wrong in ClickHouse's words. */
export type Checked<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: QueryError }

export function checked<T>(value: T): Checked<T> {
  return { ok: true, value }
}

export function exception(name: ExceptionName, message: string): QueryError {
  return { code: codeOf[name], name, message }
}

export function fail(name: ExceptionName, message: string) {
  return { ok: false, error: exception(name, message) } as const
}

/** Where the code is not the query's fault; every code that stands nowhere here is 400. */
const statuses: Readonly<Record<number, number>> = {
  48: 501,
  89: 415,
  159: 408,
  160: 408,
  164: 403,
  192: 401,
  193: 401,
  194: 401,
  201: 429,
  202: 429,
  209: 408,
  216: 409,
  497: 403,
  516: 401,
  // The engine's trouble: 503 where another try may help, 500 where it is a bug.
  49: 500,
  1002: 500,
  74: 503,
  75: 503,
  76: 503,
  198: 503,
  210: 503,
  236: 503,
  243: 503,
  279: 503,
  301: 503,
}

export function statusOf({ code }: Pick<QueryError, 'code'>): number {
  return statuses[code] ?? 400
}

/** One line with its line break. */
export function exceptionText({ code, name, message }: QueryError): string {
  return `Code: ${code}. DB::Exception: ${readable(message)}. (${name})\n`
}

/**
 * Clients take the first capitals in parentheses for the name, and a sentence may quote some of
 * the query: so those are set apart. Line breaks and a closing dot would spoil the form as well.
 */
function readable(message: string): string {
  return message
    .replaceAll(/[\r\n]+/g, ' ')
    .replaceAll(/\(([A-Z0-9_]+)\)/g, '( $1 )')
    .replace(/[.\s]+$/, '')
}
