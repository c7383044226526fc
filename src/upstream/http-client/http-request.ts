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
import type { ResponseSink } from './response-parser.ts'

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
  #isResolved = false

  constructor(bytes: string | Uint8Array, { timeoutMs }: RequestOptions, clock: Clock) {
    this.bytes = bytes
    this.#clock = clock
    this.startMs = clock.monotonicMs()
    this.#timer = setTimeout(expireLater, timeoutMs, this)
    this.response = new Promise((resolve) => {
      this.#resolve = resolve
    })
  }

  /** True when the response, or the first bytes of its stream, came. */
  get isResolved(): boolean {
    return this.#isResolved
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
      if (!this.#isResolved && this.#bodyBytes > STREAM_OPENING_BYTES) this.#respond(this.#stream)
    } else if (this.#isResolved) {
      if (this.#bodyBytes > DISCARDED_BYTES_MAX) this.abort()
    } else this.#collect(chunk)
  }

  /** The response is whole. */
  end(): void {
    if (this.isOver) return
    this.isOver = true
    if (this.#stream !== null) this.#stream.end()
    else if (!this.#isResolved) this.#respond(this.#body())
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
    if (this.#isResolved) return
    this.#isResolved = true
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
