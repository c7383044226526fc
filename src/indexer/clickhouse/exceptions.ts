// ClickHouse exceptions: their codes, texts and HTTP statuses.
// The only table from a code to a status. Clients parse code and name from the text, so its form
// is fixed: `Code: 62. DB::Exception: Sentence. (SYNTAX_ERROR)`.
/** A ClickHouse exception: its code, upper-case name and message. */
export interface QueryError {
  readonly code: number
  readonly name: string
  readonly message: string
}

/** Exceptions of this module and the usual ones of engines, which may return others. */
export const codeOf = {
  BAD_ARGUMENTS: 36,
  CANNOT_PARSE_TEXT: 6,
  NUMBER_OF_ARGUMENTS_DOESNT_MATCH: 42,
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
  ILLEGAL_DIVISION: 153,
  TOO_MANY_ROWS: 158,
  TIMEOUT_EXCEEDED: 159,
  TOO_SLOW: 160,
  READONLY: 164,
  THERE_IS_NO_PROFILE: 180,
  QUOTA_EXCEEDED: 201,
  TOO_MANY_SIMULTANEOUS_QUERIES: 202,
  SOCKET_TIMEOUT: 209,
  NETWORK_ERROR: 210,
  QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING: 216,
  MEMORY_LIMIT_EXCEEDED: 241,
  CANNOT_CREATE_CHILD_PROCESS: 301,
  TOO_MANY_BYTES: 307,
  SESSION_NOT_FOUND: 372,
  NO_COMMON_TYPE: 386,
  QUERY_WAS_CANCELLED: 394,
  FUNCTION_THROW_IF_VALUE_IS_NON_ZERO: 395,
  TOO_MANY_ROWS_OR_BYTES: 396,
  UNKNOWN_QUERY_PARAMETER: 456,
  BAD_QUERY_PARAMETER: 457,
  UNKNOWN_ROLE: 511,
  AUTHENTICATION_FAILED: 516,
  EXPECTED_ALL_OR_DISTINCT: 558,
  UNKNOWN_EXCEPTION: 1002,
} as const
export type ExceptionName = keyof typeof codeOf

/** A value, or a ClickHouse exception. */
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

/** Codes by status: those that are not the query's fault; every other code is 400. */
const codesByStatus: Readonly<Record<number, readonly number[]>> = {
  401: [192, 193, 194, 516],
  403: [164, 497],
  408: [159, 160, 209],
  409: [216],
  415: [89],
  429: [201, 202],
  501: [48],
  // Engine failures: 503 where a retry may help, 500 for a bug.
  500: [49, 1002],
  503: [74, 75, 76, 173, 198, 210, 236, 243, 279, 301, 999],
}
const statuses = new Map(
  Object.entries(codesByStatus).flatMap(([status, codes]) =>
    codes.map((code) => [code, Number(status)] as const),
  ),
)

export function statusOf({ code }: Pick<QueryError, 'code'>): number {
  return statuses.get(code) ?? 400
}

/** One line with its line break. */
export function exceptionText({ code, name, message }: QueryError): string {
  return `Code: ${code}. DB::Exception: ${readable(message)}. (${name})\n`
}

/** Reports to a client that a response with status 200 has failed; `tag` is in its head. */
export function exceptionBlock(error: QueryError, tag: string): Uint8Array {
  const text = exceptionText(error)
  const length = Buffer.byteLength(text)
  return Buffer.from(`\r\n__exception__\r\n${tag}\n${text}${length} ${tag}\r\n__exception__\r\n`)
}

/**
 * Clients take the first capitals in parentheses as the name, and a message may quote such text
 * from the query: so spaces are added there. Line breaks and a closing dot would break the form.
 */
function readable(message: string): string {
  return message
    .replaceAll(/[\r\n]+/g, ' ')
    .replaceAll(/\(([A-Z0-9_]+)\)/g, '( $1 )')
    .replace(/[.\s]+$/, '')
}

/** A name from the caller, for a message; it may be anything. */
export function shownName(name: string): string {
  return /^\w{1,64}$/.test(name) ? name : 'of that name'
}
