// One request and its answer on the native server. Thread: main. Made by http.ts alone.
// Holds the rules whose breach kills the process or hangs a client: the abort handler is attached
// before anything can throw, nothing touches the response after it ended or was aborted, borrowed
// chunks are copied unless they are the whole body, and writes outside the native callback are
// corked.
import { type Body, Reply, statusLine } from './reply.ts'
import type { Request } from './request.ts'
import { sendLarge, sendPieces, sendStream, type Way } from './stream-reply.ts'
import type { NativeResponse } from './uws.ts'

// Bodies up to here are handed over in one call; longer ones follow the reader's pace.
const WHOLE_BYTES_MAX = 262_144

export interface ExchangeOwner {
  /** The exchange outlasts this turn of the loop; false when its address has too many of them,
   *  and it was answered so. */
  waits(exchange: Exchange): boolean
  /** The exchange is over, answered or abandoned; called once. */
  finished(exchange: Exchange): void
  failed(exchange: Exchange, error: unknown): void
}

export class Exchange implements Way {
  request: Request | null = null
  watchesClient = false
  /** End the connection after the answer. */
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

  /** Reads the body; `done` gets it whole, or null once it is longer than allowed. */
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
    // The memory behind a chunk is taken back when this callback returns.
    this.#chunks ??= []
    if (chunk.length > 0) this.#chunks.push(Buffer.from(chunk))
    if (isLast) done(Buffer.concat(this.#chunks, this.#bytes))
    else this.#owner.waits(this)
  }

  /** Answers now, or when the promise is done. */
  settle(outcome: Reply | Promise<Reply>): void {
    if (outcome instanceof Reply) {
      this.answer(outcome)
      return
    }
    if (!this.#owner.waits(this)) {
      outcome.then(discard, () => {})
      return
    }
    // A second request on this connection must wait: the native server would drop both.
    if (!this.watchesClient) this.#pause()
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
    if (this.#state !== 'open') {
      discard(reply)
      return
    }
    const response = this.#response
    const { status, head, body } = reply
    // A reader may take its time from here on: it counts as long as it does.
    if (isLong(body) && !this.#owner.waits(this)) {
      discard(reply)
      return
    }
    if (status !== 200) response.writeStatus(statusLine(status))
    response.writeHeader(head.name, head.value)
    if (reply.isLast) this.isLast = true
    this.#state = 'answering'
    // Ended with a length as argument, the native response counts as unfinished and the next
    // request on the connection is lost: so the length of a HEAD answer is written by hand.
    if (this.request?.method === 'HEAD') {
      discard(reply)
      const length = lengthOf(body)
      if (length !== undefined) response.writeHeader('content-length', String(length))
      response.endWithoutBody()
    } else if (status === 204 || status === 304) response.endWithoutBody()
    else if (typeof body !== 'string' && !(body instanceof Uint8Array)) {
      if ('pieces' in body) {
        sendPieces(response, body, this)
        return
      }
      void sendStream(response, body, this)
      return
    } else if (isLong(body)) {
      sendLarge(response, body, this)
      return
    } else response.end(body, this.isLast)
    this.done()
  }

  /** Answers after a failure; one that struck half-way through an answer leaves only the cut. */
  answerFailure(reply: Reply): void {
    if (this.#state === 'answering') this.#response.close()
    else this.answer(reply)
  }

  /** Keeps the native server from cutting a slow but lawful sender. */
  touch(nowMs: number): void {
    if (this.#state !== 'open') return
    this.touchedMs = nowMs
    this.#response.pause()
    this.#response.resume()
  }

  isOpen(): boolean {
    return this.#state !== 'over'
  }

  /** The answer is through. */
  done(): void {
    if (this.#state === 'over') return
    this.#state = 'over'
    this.#chunks = null
    this.#owner.finished(this)
    this.request?.seal()
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

  #pause(): void {
    if (this.#state !== 'open' || this.#isPaused) return
    this.#isPaused = true
    this.#response.pause()
  }
}

/** Whether a body is sent at the reader's pace. */
function isLong(body: Body): boolean {
  if (typeof body === 'string' || body instanceof Uint8Array) return body.length > WHOLE_BYTES_MAX
  return true
}

/** Releases a body that nobody will read. */
function discard({ body }: Reply): void {
  if (typeof body === 'string' || body instanceof Uint8Array) return
  if ('pieces' in body) body.release?.()
  else
    void body[Symbol.asyncIterator]()
      .return?.()
      .catch(() => {})
}

/** What a HEAD answer states; a stream's length is not known. */
function lengthOf(body: Body): number | undefined {
  if (typeof body === 'string') return Buffer.byteLength(body)
  return body instanceof Uint8Array || 'pieces' in body ? body.length : undefined
}
