// One HTTP request and its response: the state object that a connection drives and a caller awaits.
// A short body is collected whole, a long one becomes a stream as soon as enough of
// it is here to be judged. A request is sent at most once: whether it may be retried is the
// caller's decision.
//
//   waiting ──► whole body ──────────────► over
//        ├────► streaming ──► last byte ──► over
//        ├────► discarding (429, 5xx) ────► over
//        └────► fault ────────────────────► over
import { isAscii } from 'node:buffer'
import type { Clock } from '../../base/clock.ts'
import { type BodySource, BodyStream, POOLED_BYTES, PooledBuffer } from './body-stream.ts'

/**
 * Why there is no response.
 * - `unreached`: no connection; nothing was sent.
 * - `broken`: the connection ended before the response did, or it was not HTTP.
 * - `timeout`: no response in time.
 * - `busy`: the client's queue is full; nothing was sent.
 * - `left`: the node left the rotation meanwhile; another one can be tried.
 * - `aborted`: the caller cancelled it.
 */
export type HttpFault = 'unreached' | 'broken' | 'timeout' | 'busy' | 'left' | 'aborted'

export interface HttpResponse {
  readonly ok: true
  readonly status: number
  /** Short ASCII bodies are text; the body of 429 and 5xx is discarded and empty. */
  readonly body: string | PooledBuffer | BodyStream
}

export interface HttpFailure {
  readonly ok: false
  readonly fault: HttpFault
  /** Whether the server may have seen the request. */
  readonly isSent: boolean
  /** Error code of the socket, such as ECONNREFUSED, or ''. */
  readonly code: string
}

export interface RequestOptions {
  /** Until the response is whole or its stream begins; a stream lasts while it makes progress. */
  readonly timeoutMs: number
}

/** The connection that carries a request. */
export interface RequestConnection {
  readonly isConnected: boolean
  pause(): void
  resume(): void
  destroy(): void
}

/** Longest body that becomes text, which is cheaper to frame than bytes. */
const TEXT_BYTES_MAX = 16_384
/** A stream begins when more than this is here: enough to find where its value starts. */
const STREAM_OPENING_BYTES = 4_096
/** A body that is discarded is read up to here, to keep the connection. */
const DISCARDED_BYTES_MAX = 65_536

export class HttpRequest implements ResponseSink, BodySource {
  readonly response: Promise<HttpResponse | HttpFailure>
  readonly bytes: string | Uint8Array
  /** 0 before the head of the response. */
  status = 0
  /** When it was created and when the head came; monotonic. */
  readonly startMs: number
  headMs = 0
  isPaused = false
  isOver = false
  /** Set when it is sent. */
  connection: RequestConnection | null = null
  readonly #clock: Clock
  readonly #timer: NodeJS.Timeout
  #resolve!: (result: HttpResponse | HttpFailure) => void
  /** Content length; -1 when the head does not state it. */
  #length = -1
  #text: string | null = null
  #buffer: PooledBuffer | null = null
  #bodyBytes = 0
  #stream: BodyStream | null = null
  /** True when the response, or the first bytes of its stream, came. */
  isResolved = false

  constructor(bytes: string | Uint8Array, { timeoutMs }: RequestOptions, clock: Clock) {
    this.bytes = bytes
    this.#clock = clock
    this.startMs = clock.monotonicMs()
    this.#timer = setTimeout(expireLater, timeoutMs, this)
    this.response = new Promise((resolve) => {
      this.#resolve = resolve
    })
  }

  pause(): void {
    if (this.isOver) return
    this.isPaused = true
    this.connection?.pause()
  }

  resume(): void {
    if (this.isOver || !this.isPaused) return
    this.isPaused = false
    this.connection?.resume()
  }

  /** Ends it, and its connection when it is on one. A response that is resolved stays so. */
  abort(fault: HttpFault = 'aborted'): void {
    if (this.isOver) return
    this.#fail(fault, '')
    this.connection?.destroy()
  }

  head(status: number, length: number): void {
    this.status = status
    this.headMs = this.#clock.monotonicMs()
    this.#length = length
    if (status === 429 || status >= 500) this.#respond('')
    else if (length > POOLED_BYTES) this.#stream = new BodyStream(this)
  }

  data(chunk: Buffer): void {
    if (this.isOver) return
    this.#bodyBytes += chunk.length
    if (this.#stream !== null) {
      this.#stream.push(chunk)
      if (!this.isResolved && this.#bodyBytes > STREAM_OPENING_BYTES) this.#respond(this.#stream)
    } else if (this.isResolved) {
      if (this.#bodyBytes > DISCARDED_BYTES_MAX) this.abort()
    } else this.#collect(chunk)
  }

  /** The response is whole. */
  end(): void {
    if (this.isOver) return
    this.isOver = true
    if (this.#stream !== null) this.#stream.end()
    else if (!this.isResolved) this.#respond(this.#body())
  }

  /** The connection was lost before that; `code` is the error code of the socket. */
  lost(code: string): void {
    if (!this.isOver)
      this.#fail(this.connection?.isConnected === true ? 'broken' : 'unreached', code)
  }

  #collect(chunk: Buffer): void {
    // Most responses are this: plain, short, and here in one piece.
    if (chunk.length === this.#length && chunk.length <= TEXT_BYTES_MAX && isAscii(chunk)) {
      this.#text = chunk.toString('latin1')
    } else if (this.#bodyBytes <= POOLED_BYTES) {
      this.#buffer ??= new PooledBuffer(this.#length < 0 ? POOLED_BYTES : this.#length)
      this.#buffer.append(chunk)
    } else {
      this.#stream = new BodyStream(this)
      if (this.#buffer !== null) {
        this.#stream.push(this.#buffer.bytes)
        this.#buffer.release()
        this.#buffer = null
      }
      this.#stream.push(chunk)
      this.#respond(this.#stream)
    }
  }

  #body(): string | PooledBuffer {
    const buffer = this.#buffer
    if (buffer === null) return this.#text ?? ''
    const { bytes } = buffer
    if (bytes.length > TEXT_BYTES_MAX || !isAscii(bytes)) return buffer
    const text = bytes.toString('latin1')
    buffer.release()
    return text
  }

  #respond(body: HttpResponse['body']): void {
    this.#settle({ ok: true, status: this.status, body })
  }

  #fail(fault: HttpFault, code: string): void {
    this.isOver = true
    this.#buffer?.release()
    this.#stream?.fail()
    this.#settle({ ok: false, fault, isSent: this.connection?.isConnected === true, code })
  }

  #settle(result: HttpResponse | HttpFailure): void {
    if (this.isResolved) return
    this.isResolved = true
    clearTimeout(this.#timer)
    this.#resolve(result)
  }
}

/** Timers run before what the sockets brought in the same turn of the loop: that still counts. */
function expireLater(request: HttpRequest): void {
  setImmediate(() => {
    if (!request.isResolved) request.abort('timeout')
  })
}

// Reads a response whole as UTF-8 text, for small responses of which no byte is forwarded.

const BYTES_MAX = 1024 * 1024

/** Null when the body is longer than `bytesMax`, or broken. Never rejects. */
export async function readText(
  { body }: HttpResponse,
  bytesMax = BYTES_MAX,
): Promise<string | null> {
  if (typeof body === 'string') return body
  if (!(body instanceof BodyStream)) {
    const text = body.bytes.toString()
    body.release()
    return text
  }
  const chunks: Buffer[] = []
  let length = 0
  try {
    for (let bytes = await body.read(); bytes !== null; bytes = await body.read()) {
      chunks.push(Buffer.from(bytes))
      length += bytes.length
      if (length > bytesMax) {
        body.cancel()
        return null
      }
    }
  } catch {
    return null
  }
  return Buffer.concat(chunks).toString()
}

// Parses HTTP/1.1 responses from the bytes of one connection. Pure: no socket.
// It accepts what RFC 9112 lets a server send and nothing else: a response whose body
// length is ambiguous is broken, because the next response would start at the wrong offset.
//
//   head ──► length ─────────────────────────► done
//        ├─► size ─► chunk ─► line ─► size … ─► trailers ─► done
//        ├─► close ──(the connection ends)────► done
//        └─► done (no body)

/** Of a head; of all interim heads before it; of all trailers. */
const headBytesMax = 64 * 1024
const lineBytesMax = 4 * 1024
const lf = 0x0a
const cr = 0x0d
const headEnd = Buffer.from('\r\n\r\n')

/** Receives one response. */
export interface ResponseSink {
  /** `length` is the content length; -1 when it is not stated. */
  head(status: number, length: number): void
  /** Borrowed: the buffer is overwritten when this returns. */
  data(chunk: Buffer): void
  /** True while no more data is accepted. */
  readonly isPaused: boolean
}

type State =
  | 'head'
  | 'length'
  | 'size'
  | 'chunk'
  | 'line'
  | 'trailers'
  | 'close'
  | 'done'
  | 'broken'

/** The headers that decide how long the body is and whether the connection stays open. */
interface Framing {
  readonly length: string | undefined
  readonly encoding: string | undefined
  readonly connection: string
}

export class ResponseParser {
  state: State = 'head'
  /** After the response: whether the connection can carry another one. */
  isReusable = true
  #sink: ResponseSink | null = null
  #lastHead = ''
  #lastFraming: Framing | null = null
  #left = 0
  /** Of interim heads, then of trailers: neither may go on forever. */
  #extraBytes = 0
  /** A head or a line whose end is not here yet. */
  #rest: Buffer | null = null

  /** Ready for the next response. */
  reset(sink: ResponseSink): void {
    this.#sink = sink
    this.state = 'head'
    this.isReusable = true
    this.#left = 0
    this.#extraBytes = 0
    this.#rest = null
  }

  /**
   * Consumes bytes up to the end of the response, a pause or the end of the bytes. Returns the
   * offset after what it consumed.
   */
  feed(bytes: Buffer): number {
    let at = 0
    while (at < bytes.length && this.state !== 'done' && this.state !== 'broken') {
      if (this.#sink!.isPaused) return at
      at = this.#step(bytes, at)
    }
    return at
  }

  /** The connection ended. */
  finish(): void {
    this.state = this.state === 'close' || this.state === 'done' ? 'done' : 'broken'
  }

  #step(bytes: Buffer, at: number): number {
    switch (this.state) {
      case 'head':
        return this.#takeHead(bytes, at)
      case 'length':
      case 'chunk':
        return this.#takeBody(bytes, at)
      case 'close':
        this.#give(bytes, at, bytes.length)
        return bytes.length
      default:
        return this.#takeLine(bytes, at)
    }
  }

  #takeHead(bytes: Buffer, at: number): number {
    const rest = this.#rest
    const fresh = at === 0 ? bytes : bytes.subarray(at)
    const whole = rest === null ? fresh : Buffer.concat([rest, fresh])
    const end = whole.indexOf(headEnd)
    if (end < 0) {
      this.#rest = rest === null ? Buffer.from(whole) : whole
      if (whole.length > headBytesMax) this.state = 'broken'
      return bytes.length
    }
    this.#rest = null
    this.#readHead(whole.toString('latin1', 0, end))
    return at + end + headEnd.length - (rest?.length ?? 0)
  }

  #readHead(text: string): void {
    const match = /^HTTP\/1\.([01]) ([1-9]\d{2})(?: [^\r\n]*)?(?:\r\n|$)/.exec(text)
    const framing = match === null ? null : this.#framingOf(text, match[0].length)
    if (match === null || framing === null) {
      this.state = 'broken'
      return
    }
    const status = Number(match[2])
    // Interim responses: the final one follows. We never request another protocol.
    if (status < 200) {
      if (status === 101 || this.#isTooMuch(text.length)) this.state = 'broken'
      return
    }
    this.#extraBytes = 0
    this.isReusable = isKept(framing.connection, match[1] === '1')
    this.state = this.#bodyState(status, framing)
    if (this.state === 'broken') return
    this.#sink!.head(status, this.state === 'length' ? this.#left : this.state === 'done' ? 0 : -1)
  }

  /** Heads of one server are often the same to the last byte, within a second of each other. */
  #framingOf(text: string, from: number): Framing | null {
    if (text === this.#lastHead) return this.#lastFraming
    this.#lastHead = text
    this.#lastFraming = framingOf(text, from)
    return this.#lastFraming
  }

  #bodyState(status: number, { length, encoding }: Framing): State {
    const isChunked = encoding?.toLowerCase() === 'chunked'
    // Both together is how responses are smuggled.
    if (encoding !== undefined && (!isChunked || length !== undefined)) return 'broken'
    if (length !== undefined && !/^\d{1,15}$/.test(length)) return 'broken'
    if (status === 204 || status === 304) return 'done'
    if (isChunked) return 'size'
    if (length === undefined) {
      this.isReusable = false
      return 'close'
    }
    this.#left = Number(length)
    return this.#left === 0 ? 'done' : 'length'
  }

  #takeBody(bytes: Buffer, at: number): number {
    const end = Math.min(bytes.length, at + this.#left)
    this.#left -= end - at
    // Before the sink gets it: what it does then may depend on the state.
    if (this.#left === 0) this.state = this.state === 'length' ? 'done' : 'line'
    this.#give(bytes, at, end)
    return end
  }

  #give(bytes: Buffer, from: number, to: number): void {
    this.#sink!.data(from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to))
  }

  /** A line of the chunked coding: a size, the end of a chunk, a trailer. */
  #takeLine(bytes: Buffer, at: number): number {
    const end = bytes.indexOf(lf, at)
    const part = bytes.subarray(at, end < 0 ? bytes.length : end + 1)
    const line = this.#rest === null ? part : Buffer.concat([this.#rest, part])
    if (line.length > lineBytesMax) {
      this.state = 'broken'
      return bytes.length
    }
    if (end < 0) {
      this.#rest = Buffer.from(line)
      return bytes.length
    }
    this.#rest = null
    this.state =
      line.length < 2 || line[line.length - 2] !== cr
        ? 'broken'
        : this.#afterLine(line.toString('latin1', 0, line.length - 2))
    return end + 1
  }

  #afterLine(line: string): State {
    if (this.state === 'trailers') {
      if (line === '') return 'done'
      return this.#isTooMuch(line.length) ? 'broken' : 'trailers'
    }
    if (this.state === 'line') return line === '' ? 'size' : 'broken'
    const match = /^([0-9a-f]{1,12})[ \t]*(?:;.*)?$/i.exec(line)
    if (match === null) return 'broken'
    this.#left = Number.parseInt(match[1] as string, 16)
    return this.#left === 0 ? 'trailers' : 'chunk'
  }

  #isTooMuch(bytes: number): boolean {
    this.#extraBytes += bytes
    return this.#extraBytes > headBytesMax
  }
}

/** Whether the connection stays open: by default since HTTP/1.1. */
function isKept(connection: string, byDefault: boolean): boolean {
  if (connection === '') return byDefault
  const words = connection.toLowerCase().split(/[,\s]+/)
  return byDefault ? !words.includes('close') : words.includes('keep-alive')
}

/** Repeated headers are joined by a comma. Null when a line is not a header. */
function framingOf(text: string, from: number): Framing | null {
  let length: string | undefined
  let encoding: string | undefined
  let connection: string | undefined
  if (UNSAFE.test(text)) return null
  let at = from
  while (at < text.length) {
    const next = text.indexOf('\r\n', at)
    const end = next < 0 ? text.length : next
    const colon = nameEnd(text, at)
    if (colon <= at || colon >= end) return null
    // Only names of these lengths matter; each text that is cut out costs an allocation.
    switch (colon - at) {
      case 10:
        if (isName(text, at, 'connection')) connection = joined(connection, text, colon, end)
        break
      case 14:
        if (isName(text, at, 'content-length')) length = joined(length, text, colon, end)
        break
      case 17:
        if (isName(text, at, 'transfer-encoding')) encoding = joined(encoding, text, colon, end)
    }
    at = end + 2
  }
  return { length, encoding, connection: connection ?? '' }
}

/** The offset of the colon after a name; -1 when it is no token of RFC 9110. */
function nameEnd(text: string, from: number): number {
  NAME.lastIndex = from
  return NAME.test(text) ? NAME.lastIndex - 1 : -1
}

function isName(text: string, at: number, name: string): boolean {
  return text.slice(at, at + name.length).toLowerCase() === name
}

function joined(before: string | undefined, text: string, colon: number, end: number): string {
  // Not `trim`: it takes a no-break space away, which is part of the value.
  const value = text.slice(colon + 1, end).replaceAll(/^[ \t]+|[ \t]+$/g, '')
  return before === undefined ? value : `${before},${value}`
}

const NAME = /[!#$%&'*+.^`|~\w-]+:/y
/** Characters that no head contains, and halves of the end of a line. */
const UNSAFE = /[^\t\r\n\x20-\x7e\x80-\xff]|\r(?!\n)|(?<!\r)\n/
