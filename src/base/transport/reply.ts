// HTTP replies: their headers, their encodings, and close codes of WebSockets.
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
import { assert } from '../errors.ts'
import { compressZstd, decompressZstd } from '../zstd.ts'

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
