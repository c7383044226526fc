// HTTP requests, replies and their encodings.
// The head of a request is read in a single pass over its headers.
// The pass collects the headers that an endpoint requested, counts repeated credentials, and
// detects framing that allows request smuggling: the native parser takes the first of two
// Content-Lengths and reads any Transfer-Encoding as chunked.
import { pipeline, Readable, Transform } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { promisify } from 'node:util'
import {
  brotliCompress,
  brotliDecompress,
  constants,
  createBrotliCompress,
  createDeflate,
  createGzip,
  deflate,
  gunzip,
  gzip,
  inflate,
} from 'node:zlib'
import { addressKey } from '../cidr.ts'
import { assert } from '../errors.ts'
import { compressZstd, decompressZstd } from '../zstd.ts'
import type { Addresses } from './address.ts'
import type { NativeRequest, NativeResponse } from './uws.ts'

const HEADERS_MAX = 64
const HEADER_BYTES_MAX = 16_384

/** Headers that may contain a token; '' is absent. Has the shape of auth's `Credentials`. */
interface HeaderCredentials {
  readonly xToken: string
  readonly authorization: string
  readonly xApiKey: string
  /** One of the three was sent more than once. */
  readonly repeated: boolean
}

/** What an endpoint reads from its requests. */
export interface HeadOptions {
  readonly addresses: Addresses
  /** Lower-case names for `Request.header`. */
  readonly wants: ReadonlySet<string>
}

interface HeadProblem {
  readonly status: number
  readonly message: string
}

const NO_PARAMS: readonly string[] = []

export class Request {
  readonly method: string
  readonly path: string
  /** The raw query without `?`. Never log it: it may contain a token. */
  readonly query: string
  readonly credentials: HeaderCredentials
  readonly contentType: string
  /** The Origin header of a browser; '' for other clients. */
  readonly origin: string
  /** -1 when not stated. */
  readonly contentLength: number
  /** What is wrong with the head; answered with its status, and the connection is closed. */
  readonly problem: HeadProblem | null
  /** Values of the `:name` segments of the route's path, in order. */
  params: readonly string[] = NO_PARAMS
  readonly #headers: ReadonlyMap<string, string> | null
  readonly #addresses: Addresses
  readonly #forwarded: string
  #response: NativeResponse | null
  #address: string | null = null
  #addressKey: string | null = null
  #whenGone: (() => void)[] | null = null
  #isGone = false

  constructor(
    native: NativeRequest,
    response: NativeResponse,
    options: HeadOptions,
    route: { readonly verb: string; readonly path: string } | null,
  ) {
    pass.begin(options.wants)
    native.forEach(takeHeader)
    this.method = route === null ? native.getMethod().toUpperCase() : route.verb
    this.path = route === null ? native.getUrl() : route.path
    this.query = native.getQuery() ?? ''
    this.credentials = pass.credentials()
    this.contentType = pass.contentType
    this.origin = pass.origin
    this.contentLength = pass.contentLength
    this.problem = pass.problem()
    this.#headers = pass.headers
    this.#forwarded = pass.forwarded
    this.#addresses = options.addresses
    this.#response = response
  }

  /** The client's address, through trusted proxies. Read on first use, which must be before the
   *  request is answered; later it is ''. */
  get address(): string {
    if (this.#address === null && this.#response !== null)
      this.#address = this.#addresses.clientOf(this.#response.getRemoteAddress(), this.#forwarded)
    return this.#address ?? ''
  }

  /** Key under which limits count the client: IPv4 by address, IPv6 by /64. */
  get addressKey(): string {
    this.#addressKey ??= addressKey(this.address)
    return this.#addressKey
  }

  /** A header that the endpoint listed in `wants`; '' when absent, the first of duplicates. */
  header(name: string): string {
    return this.#headers?.get(name) ?? ''
  }

  /** The first value of a query parameter, decoded; null when absent. */
  parameter(name: string): string | null {
    return this.query === '' ? null : new URLSearchParams(this.query).get(name)
  }

  /** True when a query parameter is given more than once. */
  isRepeated(name: string): boolean {
    return this.query !== '' && new URLSearchParams(this.query).getAll(name).length > 1
  }

  /** True once the client has disconnected before it was answered. */
  get isGone(): boolean {
    return this.#isGone
  }

  /** Runs `cancel` when the client disconnects before the answer (routes with `watchesClient`). */
  onGone(cancel: () => void): void {
    this.#whenGone ??= []
    this.#whenGone.push(cancel)
  }

  // The methods below are for the transport module only.

  /** The native response must not be used any more. */
  seal(): void {
    this.#response = null
  }

  leave(): void {
    this.#isGone = true
    for (const cancel of this.#whenGone ?? []) cancel()
    this.#whenGone = null
  }
}

const NO_CREDENTIALS: HeaderCredentials = {
  xToken: '',
  authorization: '',
  xApiKey: '',
  repeated: false,
}

/** Collects headers. One object serves all requests: the native iteration is synchronous. */
class HeadPass {
  contentType = ''
  origin = ''
  /** -1 when not stated. */
  contentLength = -1
  transferEncoding = ''
  forwarded = ''
  headers: Map<string, string> | null = null
  wants: ReadonlySet<string> = new Set()
  xToken = ''
  authorization = ''
  xApiKey = ''
  /** A bit for each credential header that was present. */
  seen = 0
  isRepeated = false
  isSmuggling = false
  count = 0
  bytes = 0

  begin(wants: ReadonlySet<string>): void {
    this.wants = wants
    this.headers = null
    this.contentType = this.transferEncoding = this.forwarded = this.origin = ''
    this.contentLength = -1
    this.xToken = this.authorization = this.xApiKey = ''
    this.seen = this.count = this.bytes = 0
    this.isRepeated = this.isSmuggling = false
  }

  credentials(): HeaderCredentials {
    if (this.seen === 0) return NO_CREDENTIALS
    const { xToken, authorization, xApiKey, isRepeated } = this
    return { xToken, authorization, xApiKey, repeated: isRepeated }
  }

  problem(): HeadProblem | null {
    if (this.count > HEADERS_MAX || this.bytes > HEADER_BYTES_MAX)
      return { status: 431, message: 'too many headers' }
    const hasBoth = this.contentLength !== -1 && this.transferEncoding !== ''
    return this.isSmuggling || hasBoth
      ? { status: 400, message: 'ambiguous content length or transfer encoding' }
      : null
  }

  see(bit: number): void {
    if ((this.seen & bit) !== 0) this.isRepeated = true
    this.seen |= bit
  }
}

const pass = new HeadPass()

function takeHeader(name: string, value: string): void {
  pass.count++
  pass.bytes += name.length + value.length
  switch (name) {
    case 'x-token':
      pass.see(1)
      pass.xToken ||= value
      break
    case 'authorization':
      pass.see(2)
      pass.authorization ||= value
      break
    case 'x-api-key':
      pass.see(4)
      pass.xApiKey ||= value
      break
    case 'content-type':
      pass.contentType ||= value
      break
    case 'origin':
      pass.origin ||= value
      break
    case 'content-length':
      if (pass.contentLength !== -1) pass.isSmuggling = true
      pass.contentLength = numberIn(value)
      if (pass.contentLength === -1) pass.isSmuggling = true
      break
    case 'transfer-encoding':
      if (pass.transferEncoding !== '' || value.toLowerCase() !== 'chunked') pass.isSmuggling = true
      pass.transferEncoding = value
      break
    case 'x-forwarded-for':
      pass.forwarded = pass.forwarded === '' ? value : `${pass.forwarded},${value}`
      break
  }
  if (pass.wants.size > 0 && pass.wants.has(name)) {
    pass.headers ??= new Map()
    if (!pass.headers.has(name)) pass.headers.set(name, value)
  }
}

/** A number of 1 to 15 digits; -1 for any other text. */
function numberIn(text: string): number {
  if (text.length === 0 || text.length > 15) return -1
  let number = 0
  for (let at = 0; at < text.length; at++) {
    const digit = text.charCodeAt(at) - 0x30
    if (digit < 0 || digit > 9) return -1
    number = number * 10 + digit
  }
  return number
}

/** The spellings that most clients use. */
const plainTypes = ['application/json', 'application/octet-stream', 'text/plain'] as const

/** The media type without its parameters, in lower case. */
export function mediaTypeOf(contentType: string): string {
  for (const type of plainTypes) if (contentType === type) return type
  return contentType.split(';', 1)[0]!.trim().toLowerCase()
}

// HTTP replies, their headers, and close codes of WebSockets.

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

// Compresses responses as Accept-Encoding asks, whole or streamed, and decodes request bodies.

/** The fastest levels, because this runs in the main process. */
const level = { level: 1 }
const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }

type CodingName = 'br' | 'gzip' | 'deflate' | 'zstd'

export interface Coding<N extends CodingName = CodingName> {
  readonly name: N
  /** `effort` is a level of zlib, for answers that are shared; the fastest without it. */
  whole(bytes: Uint8Array, effort?: number): Promise<Buffer>
  stream(): Transform
  /** Rejects what is malformed or longer than `maxOutputLength`. */
  decode(bytes: Buffer, options: { readonly maxOutputLength: number }): Promise<Buffer>
}

/** zstd blocks the thread while it compresses, so it takes less at once and is the last choice. */
const ZSTD_FRAME_BYTES = 131_072

/** In the order in which they are chosen. */
const codings: readonly Coding[] = [
  {
    name: 'br',
    whole: (bytes) => promisify(brotliCompress)(bytes, quality),
    stream: () => createBrotliCompress(quality),
    decode: promisify<Buffer, { maxOutputLength: number }, Buffer>(brotliDecompress),
  },
  {
    name: 'gzip',
    whole: (bytes, effort = level.level) => promisify(gzip)(bytes, { level: effort }),
    stream: () => createGzip(level),
    decode: promisify<Buffer, { maxOutputLength: number }, Buffer>(gunzip),
  },
  {
    name: 'deflate',
    whole: (bytes) => promisify(deflate)(bytes, level),
    stream: () => createDeflate(level),
    decode: promisify<Buffer, { maxOutputLength: number }, Buffer>(inflate),
  },
  {
    name: 'zstd',
    whole: zstd,
    stream: () =>
      new Transform({
        transform: (chunk: Buffer, _, done) =>
          void zstd(chunk).then((frames) => done(null, frames), done),
      }),
    decode: async (bytes, { maxOutputLength }) => {
      const content = decompressZstd(bytes, maxOutputLength)
      if (typeof content === 'string') throw new Error(content)
      return content
    },
  },
]

/** Frames that decoders read as one content. */
async function zstd(bytes: Uint8Array): Promise<Buffer> {
  const frames: Buffer[] = []
  for (let at = 0; at === 0 || at < bytes.length; at += ZSTD_FRAME_BYTES) {
    frames.push(compressZstd(bytes.subarray(at, at + ZSTD_FRAME_BYTES), level.level))
    await turn()
  }
  return Buffer.concat(frames)
}

/** The coding of a Content-Encoding; null when there is no such. */
export function codingNamed(name: string): Coding | null {
  return codings.find((coding) => coding.name === name) ?? null
}

/** The first that the client accepts, among all or among those offered, of which gzip is one; null
 *  when it accepts none of them. */
export function codingOf<N extends CodingName = CodingName>(
  acceptEncoding: string,
  offered: readonly (N | 'gzip')[] | null = null,
): Coding<N | 'gzip'> | null {
  const accepted = acceptEncoding
    .split(',')
    .map((one) => /^\s*([\w*-]+)\s*(?:;\s*q=(.*))?$/.exec(one))
    .filter((form) => form !== null && !/^0(\.0*)?\s*$/.test(form[2] ?? '1'))
    .map((form) => form![1]!.toLowerCase())
  const isOffered = (coding: Coding): coding is Coding<N | 'gzip'> =>
    offered?.some((name) => name === coding.name) ?? true
  const own = codings.filter(isOffered)
  const found = own.find(({ name }) => accepted.includes(name))
  return found ?? (accepted.includes('*') ? own.find(({ name }) => name === 'gzip')! : null)
}

/** `effort` as in `Coding`. */
export async function encoded(reply: Reply, coding: Coding, effort?: number): Promise<Reply> {
  const { status, body, isLast } = reply
  const head = reply.head.and('content-encoding', coding.name)
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  if (bytes instanceof Uint8Array)
    return new Reply(status, head, await coding.whole(bytes, effort), isLast)
  if ('pieces' in bytes) return reply
  return new Reply(status, head, streamed(bytes, coding.stream()), isLast)
}

/** With backpressure; ends the source when the reader leaves. */
function streamed(source: AsyncIterable<Uint8Array>, packer: Transform): AsyncIterable<Uint8Array> {
  const body = source[Symbol.asyncIterator]()
  // An error in the source destroys the packer, and with it the connection.
  pipeline(Readable.from(source, { objectMode: false }), packer, () => {})
  return withReturn(packer[Symbol.asyncIterator](), () => {
    packer.destroy()
    void body.return?.()
  })
}

/** Wraps `chunks` to call `end` when they are ended early, even before the first was read. */
export function withReturn(
  chunks: AsyncIterator<Uint8Array>,
  end: () => void,
): AsyncIterableIterator<Uint8Array> {
  return {
    [Symbol.asyncIterator]() {
      return this
    },
    next: () => chunks.next(),
    async return() {
      end()
      await chunks.return?.()
      return { done: true, value: undefined }
    },
  }
}
