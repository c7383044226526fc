// One HTTP request and its response on the native server.
// Keeps the rules whose violation kills the process or hangs a client: the abort handler is
// attached before anything can throw, nothing touches the response after it ended or was aborted,
// borrowed chunks are copied unless they are the whole body, and writes outside the native callback
// are corked.
import { type Body, type Pieces, Reply, statusLine } from './reply.ts'
import type { Request } from './request.ts'
import { type NativeResponse, nativeText } from './uws.ts'

export interface ExchangeOwner {
  /** The exchange outlasts this turn of the event loop; false when its address has too many of
   *  them, and it was answered with 429. */
  waits(exchange: Exchange): boolean
  /** The exchange ended, answered or aborted by the client; called once. */
  finished(exchange: Exchange): void
  failed(exchange: Exchange, error: unknown): void
}

export class Exchange implements OpenExchange {
  request: Request | null = null
  watchesClient = false
  /** Close the connection after the response. */
  isLast = false
  /** Counted among the waiting requests of its address. */
  isCounted = false
  /** When the sweep first saw it waiting, and when it last touched it. */
  seenMs = 0
  touchedMs = 0
  readonly #response: NativeResponse
  readonly #owner: ExchangeOwner
  #state: 'open' | 'answering' | 'over' = 'open'
  #isPaused = false
  #chunks: Buffer[] | null = null
  #bytes = 0

  constructor(response: NativeResponse, owner: ExchangeOwner) {
    this.#response = response
    this.#owner = owner
    response.onAborted(() => this.#abort())
  }

  /** Reads the body; `done` receives it whole, or null once it is longer than allowed. */
  read(bytesMax: number, done: (body: Buffer | null) => void): void {
    this.#response.onData((chunk, isLast) => {
      if (this.#state !== 'open') return
      try {
        if (isLast && this.#chunks === null && chunk.byteLength <= bytesMax) {
          done(Buffer.from(chunk))
        } else this.#collect(Buffer.from(chunk), isLast, bytesMax, done)
      } catch (error) {
        this.#owner.failed(this, error)
      }
    })
  }

  #collect(
    chunk: Buffer,
    isLast: boolean,
    bytesMax: number,
    done: (body: Buffer | null) => void,
  ): void {
    this.#bytes += chunk.length
    if (this.#bytes > bytesMax) {
      done(null)
      return
    }
    // The native server reuses the memory of a chunk when this callback returns.
    this.#chunks ??= []
    if (chunk.length > 0) this.#chunks.push(Buffer.from(chunk))
    if (isLast) done(Buffer.concat(this.#chunks, this.#bytes))
    else this.#owner.waits(this)
  }

  /** Answers now, or when the promise resolves. */
  settle(outcome: Reply | Promise<Reply>): void {
    if (outcome instanceof Reply) return void this.answer(outcome)
    if (!this.#owner.waits(this)) {
      outcome.then(discard, () => {})
      return
    }
    // A second request on this connection must wait: the native server would drop both.
    this.#isPaused = !this.watchesClient && this.#state === 'open'
    if (this.#isPaused) this.#response.pause()
    outcome.then(
      (reply) => (this.#state === 'open' ? this.answerCorked(reply) : discard(reply)),
      (error) => this.#corked(() => this.#owner.failed(this, error)),
    )
  }

  /** Answers from outside the native callbacks. */
  answerCorked(reply: Reply): void {
    this.#corked(() => {
      try {
        this.answer(reply)
      } catch (error) {
        this.#owner.failed(this, error)
      }
    })
  }

  answer(reply: Reply): void {
    const response = this.#response
    const { status, head, body } = reply
    // A slow reader: the request counts as in flight until a long body is sent.
    if (this.#state !== 'open' || (!isShort(body) && !this.#owner.waits(this))) {
      discard(reply)
      return
    }
    if (status !== 200) response.writeStatus(statusLine(status))
    if (reply.isLast) this.isLast = true
    response.writeHeader(head.name, nativeText(this.isLast ? head.lastValue : head.value))
    this.#state = 'answering'
    // If ended with a length as argument, the native response counts as unfinished and the next
    // request on the connection is lost: so the length of a HEAD response is written by hand.
    if (this.request?.method === 'HEAD') {
      discard(reply)
      const length = lengthOf(body)
      if (length !== undefined) response.writeHeader('content-length', String(length))
      response.endWithoutBody()
    } else if (status === 204 || status === 304) response.endWithoutBody()
    else if (isShort(body)) response.end(nativeText(body), this.isLast)
    else {
      this.#send(typeof body === 'string' ? Buffer.from(body) : body)
      return
    }
    this.done()
  }

  /** Answers after a failure; half-way through a response it can only close the connection. */
  answerFailure(reply: Reply): void {
    if (this.#state === 'answering') this.#response.close()
    else this.answer(reply)
  }

  /** Resets the native idle timeout of a slow but valid sender. */
  touch(nowMs: number): void {
    if (this.#state !== 'open') return
    this.touchedMs = nowMs
    this.#response.pause()
    this.#response.resume()
  }

  isOpen(): boolean {
    return this.#state !== 'over'
  }

  /** The response is sent. */
  done(): void {
    if (this.#state === 'over') return
    this.#state = 'over'
    this.#chunks = null
    this.#owner.finished(this)
    this.request?.seal()
  }

  /** Sends with backpressure; the senders call `done`. */
  #send(body: Exclude<Body, string>): void {
    // Of these the native server ends the connection by itself only after a stream.
    if (this.isLast && (body instanceof Uint8Array || 'pieces' in body))
      this.#response.writeHeader('connection', 'close')
    if (body instanceof Uint8Array)
      sendPieces(this.#response, { pieces: [body], length: body.length }, this)
    else if ('pieces' in body) sendPieces(this.#response, body, this)
    else void sendStream(this.#response, body, this)
  }

  #abort(): void {
    if (this.#state === 'over') return
    this.request?.seal()
    this.done()
    this.request?.leave()
  }

  #corked(write: () => void): void {
    if (this.#state !== 'open') return
    if (this.#isPaused) this.#response.resume()
    this.#isPaused = false
    this.#response.cork(write)
  }
}

/** Whether a body is sent in one write; others are sent with backpressure. */
function isShort(body: Body): body is string | Uint8Array {
  // A character has up to three bytes.
  if (typeof body === 'string') return body.length <= CORKED_BYTES_MAX / 3
  return body instanceof Uint8Array && body.length <= CORKED_BYTES_MAX
}

/** Releases a body that will not be sent. */
function discard({ body }: Reply): void {
  if (typeof body === 'string' || body instanceof Uint8Array) return
  if ('pieces' in body) body.release?.()
  else
    void body[Symbol.asyncIterator]()
      .return?.()
      .catch(() => {})
}

/** Content length of a HEAD response; a stream's length is unknown. */
function lengthOf(body: Body): number | undefined {
  if (typeof body === 'string') return Buffer.byteLength(body)
  return body instanceof Uint8Array || 'pieces' in body ? body.length : undefined
}

// Sends responses that are too long for one write, with backpressure from the reader.
// The native server closes a connection whose reader reads nothing for 12 s, so while the reader
// blocks, the connection is touched every 4 s, up to a timeout of our own.

const BLOCKED_TOUCH_MS = 4_000
const BLOCKED_MS_MAX = 60_000

/**
 * Most bytes of one native write or end. Its cork buffer has 16 KiB: of a write that does not fit,
 * the native server first sends what is corked, and drops the write when the kernel takes none of
 * that (uWebSockets.js issue 1249). So each write fits, beside a head or the frame of a chunk.
 */
export const CORKED_BYTES_MAX = 12_288

/** The exchange that is being answered. */
export interface OpenExchange {
  readonly isLast: boolean
  /** False once the client disconnected or the response ended. */
  isOpen(): boolean
  /** The response is sent; called once. */
  done(): void
}

/** A body in pieces; nothing is copied here, however slow the reader is. */
export function sendPieces(response: NativeResponse, body: Pieces, exchange: OpenExchange): void {
  const { pieces, length, release } = body
  let watch: Watch | null = null
  const push = (from: number): boolean => {
    let end = 0
    for (const piece of pieces) {
      const start = end
      end += piece.length
      if (end <= from) continue
      const rest = from > start ? piece.subarray(from - start) : piece
      const [isWritten, hasEnded] = response.tryEnd(rest, length)
      if (hasEnded) {
        watch?.end()
        exchange.done()
        release?.()
        return true
      }
      if (!isWritten) return false
    }
    return true
  }
  if (push(0)) return
  watch = watchBlocked(response, exchange)
  const blocked = watch
  response.onWritable((offset) => {
    blocked.sinceMs = performance.now()
    return exchange.isOpen() ? push(offset) : true
  })
}

/** A body that is produced while it is sent; a source that throws closes the connection. */
export async function sendStream(
  response: NativeResponse,
  chunks: AsyncIterable<Uint8Array>,
  exchange: OpenExchange,
): Promise<void> {
  const watch = watchBlocked(response, exchange)
  watch.sinceMs = null
  let unblock: (() => void) | null = null
  response.onWritable(() => {
    if (unblock !== null) watch.sinceMs = performance.now()
    unblock?.()
    return true
  })
  try {
    for await (const chunk of chunks)
      for (let at = 0; at < chunk.length; at += CORKED_BYTES_MAX) {
        if (!exchange.isOpen()) return
        let isWritten = true
        response.cork(() => {
          isWritten = response.write(chunk.subarray(at, at + CORKED_BYTES_MAX))
        })
        if (isWritten) continue
        watch.sinceMs = performance.now()
        await new Promise<void>((resolve) => {
          unblock = resolve
          watch.onGone = resolve
        })
        unblock = null
        watch.sinceMs = null
      }
    if (!exchange.isOpen()) return
    response.cork(() => response.end(undefined, exchange.isLast))
    exchange.done()
  } catch {
    // The status was sent already: only closing the connection can signal the failure.
    if (exchange.isOpen()) response.close()
  } finally {
    watch.end()
  }
}

interface Watch {
  /** When the reader blocked, or last read some of it; null once it has read everything: an idle
   *  source does not count as a blocked reader. */
  sinceMs: number | null
  end(): void
  onGone: (() => void) | null
}

/** Touches a blocked connection, and closes it when its reader read nothing for a minute. */
function watchBlocked(response: NativeResponse, exchange: OpenExchange): Watch {
  const timer = setInterval(() => {
    if (!exchange.isOpen()) return watch.end()
    const { sinceMs } = watch
    const isStuck = sinceMs !== null && performance.now() - sinceMs > BLOCKED_MS_MAX
    if (isStuck) return void response.close()
    response.pause()
    response.resume()
  }, BLOCKED_TOUCH_MS)
  const watch: Watch = {
    onGone: null,
    sinceMs: performance.now(),
    end() {
      clearInterval(timer)
      watch.onGone?.()
    },
  }
  return watch
}
