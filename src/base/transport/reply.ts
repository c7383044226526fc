// HTTP replies, their headers, and close codes of WebSockets.
import { assert } from '../assert.ts'

/** Close codes without a refusal kind. */
export const CLOSE_GOING_AWAY = 1001
export const CLOSE_POLICY = 1008
export const CLOSE_TOO_LONG = 1009
export const CLOSE_BUG = 1011
export const CLOSE_TOO_SLOW = 1013

const STATUS_TEXTS: Readonly<Record<number, string>> = {
  200: 'OK',
  202: 'Accepted',
  204: 'No Content',
  304: 'Not Modified',
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  406: 'Not Acceptable',
  408: 'Request Timeout',
  409: 'Conflict',
  413: 'Content Too Large',
  415: 'Unsupported Media Type',
  426: 'Upgrade Required',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  500: 'Internal Server Error',
  501: 'Not Implemented',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
}

export function statusLine(status: number): string {
  return `${status} ${STATUS_TEXTS[status] ?? 'Unknown'}`
}

/**
 * The native server closes a connection that was idle for 8 to 12 s, and that cannot be changed. A
 * client that knows closes it first and never writes into one that is being closed.
 */
const KEEP_ALIVE_LINE = '\r\nkeep-alive: timeout=7'

/**
 * Response headers, joined once: the native call per header is more expensive than the text, so all
 * lines are sent as the value of the first. Create constant ones outside the hot path and extend
 * them with `and`. Every head says how long the connection stays open.
 */
export class ResponseHead {
  readonly name: string
  readonly value: string
  /** The last extension by `andLines`: a head that is used again is extended by the same lines. */
  #lines = ''
  #extended: ResponseHead | null = null

  private constructor(name: string, value: string) {
    this.name = name
    this.value = value
  }

  static of(headers: Readonly<Record<string, string>>): ResponseHead {
    const [first, ...rest] = Object.entries(headers)
    assert(first !== undefined, 'a head has at least one line')
    const head = new ResponseHead(first[0], `${checked(first[1])}${KEEP_ALIVE_LINE}`)
    return rest.reduce((before, line) => before.and(...line), head)
  }

  /** Its lines for the last response of a connection. */
  get lastValue(): string {
    return this.value.replace(KEEP_ALIVE_LINE, '')
  }

  /** Further lines, `name: value` joined by CR LF, that contain no caller-supplied text. */
  andLines(lines: string): ResponseHead {
    if (this.#extended === null || this.#lines !== lines) {
      this.#lines = lines
      this.#extended = new ResponseHead(this.name, `${this.value}\r\n${lines}`)
    }
    return this.#extended
  }

  and(name: string, value: string): ResponseHead {
    return new ResponseHead(this.name, `${this.value}\r\n${name}: ${checked(value)}`)
  }
}

export const jsonHead = ResponseHead.of({ 'content-type': 'application/json' })

/** A body in separate buffers that are sent one after another. */
export interface Pieces {
  readonly pieces: readonly Uint8Array[]
  /** Total bytes. */
  readonly length: number
  /** Called when they are sent and may be overwritten. */
  readonly release?: (() => void) | undefined
}

export type Body = string | Uint8Array | Pieces | AsyncIterable<Uint8Array>

/**
 * One HTTP response. A body that is an async iterable is streamed with backpressure. It may be
 * discarded unread: `return` of its iterator then releases its resources. A bare async generator
 * that was never started does not, so a body with resources has an iterator of its own.
 */
export class Reply {
  readonly status: number
  readonly head: ResponseHead
  readonly body: Body
  /** Closes the connection afterwards, because what follows on it cannot be trusted or awaited. */
  readonly isLast: boolean

  constructor(status: number, head: ResponseHead, body: Body = '', isLast = false) {
    this.status = status
    this.head = head
    this.body = body
    this.isLast = isLast
  }
}

/** `{"error": message}`, the error format of every endpoint that is not JSON-RPC. */
export function errorReply(status: number, message: string, head = jsonHead): Reply {
  return new Reply(status, head, JSON.stringify({ error: message }))
}

export function withRetryAfter(head: ResponseHead, retryAfterMs: number | undefined): ResponseHead {
  if (retryAfterMs === undefined) return head
  return head.and('retry-after', String(Math.max(1, Math.ceil(retryAfterMs / 1000))))
}

function checked(value: string): string {
  // A line break inside a value would let its author inject headers.
  assert(!value.includes('\n') && !value.includes('\r'), 'a header value is one line')
  return value
}
