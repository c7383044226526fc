// One request and its answer on the native server. Thread: main. Made by http.ts alone.
// Holds the rules whose breach kills the process or hangs a client: the abort handler is attached
// before anything can throw, nothing touches the response after it ended or was aborted, borrowed
// chunks are copied unless they are the whole body, and writes outside the native callback are
// corked.
import { type Body, Reply, statusLine } from './reply.ts'
import type { Request } from './request.ts'
import { sendLarge, sendStream } from './stream-reply.ts'
import type { NativeResponse } from './uws.ts'

// Bodies up to here are handed over in one call; longer ones follow the reader's pace.
const WHOLE_BYTES_MAX = 262_144

interface Owner {
  /** The exchange is over, answered or abandoned; called once. */
  finished(): void
  failed(error: unknown): void
}

export class Exchange {
  readonly beganMs: number
  request: Request | null = null
  watchesClient = false
  /** End the connection after the answer. */
  closesAfter = false
  readonly #response: NativeResponse
  readonly #owner: Owner
  #state: 'open' | 'answering' | 'over' = 'open'
  #isPaused = false
  #touchedMs: number
  #chunks: Buffer[] | null = null
  #bytes = 0

  constructor(response: NativeResponse, nowMs: number, owner: Owner) {
    this.#response = response
    this.#owner = owner
    this.beganMs = nowMs
    this.#touchedMs = nowMs
    response.onAborted(() => this.#abort())
  }

  /** Reads the body; `done` gets it whole, or null once it is longer than allowed. */
  read(bytesMax: number, done: (body: Buffer | null) => void): void {
    this.#response.onData((chunk, isLast) => {
      if (this.#state !== 'open') return
      try {
        this.#take(Buffer.from(chunk), isLast, bytesMax, done)
      } catch (error) {
        this.#owner.failed(error)
      }
    })
  }

  #take(chunk: Buffer, isLast: boolean, bytesMax: number, done: (b: Buffer | null) => void): void {
    this.#bytes += chunk.length
    if (this.#bytes > bytesMax) done(null)
    else if (isLast && this.#chunks === null) done(chunk)
    else {
      // The memory behind a chunk is taken back when this callback returns.
      this.#chunks ??= []
      if (chunk.length > 0) this.#chunks.push(Buffer.from(chunk))
      if (isLast) done(Buffer.concat(this.#chunks, this.#bytes))
    }
  }

  /** Answers now, or when the promise is done. */
  settle(outcome: Reply | Promise<Reply>): void {
    if (outcome instanceof Reply) {
      this.answer(outcome)
      return
    }
    // A second request on this connection must wait: the native server would drop both.
    if (!this.watchesClient) this.#pause()
    outcome.then(
      (reply) => this.answerCorked(reply),
      (error) => this.#corked(() => this.#owner.failed(error)),
    )
  }

  /** Answers from outside the native callbacks. */
  answerCorked(reply: Reply): void {
    this.#corked(() => {
      try {
        this.answer(reply)
      } catch (error) {
        this.#owner.failed(error)
      }
    })
  }

  answer(reply: Reply): void {
    if (this.#state !== 'open') return
    const response = this.#response
    if (reply.status !== 200) response.writeStatus(statusLine(reply.status))
    response.writeHeader(reply.head.name, reply.head.value)
    const { body } = reply
    const isLast = reply.isLast || this.closesAfter
    const way = { isLast, isOpen: this.#isOpen, done: this.#over }
    this.#state = 'answering'
    // Ended with a length as argument, the native response counts as unfinished and the next
    // request on the connection is lost: so the length of a HEAD answer is written by hand.
    if (this.request?.method === 'HEAD') {
      const length = lengthOf(body)
      if (length !== undefined) response.writeHeader('content-length', String(length))
      response.endWithoutBody()
    } else if (reply.status === 204 || reply.status === 304) response.endWithoutBody()
    else if (typeof body !== 'string' && !(body instanceof Uint8Array)) {
      void sendStream(response, body, way)
      return
    } else if (body.length > WHOLE_BYTES_MAX) {
      sendLarge(response, body, way)
      return
    } else response.end(body, isLast)
    this.#over()
  }

  /** Keeps the native server from cutting a slow but lawful sender. */
  touch(nowMs: number, everyMs: number): void {
    if (this.#state !== 'open' || nowMs - this.#touchedMs < everyMs) return
    this.#touchedMs = nowMs
    this.#response.pause()
    this.#response.resume()
  }

  #corked(write: () => void): void {
    if (this.#state !== 'open') return
    if (this.#isPaused) this.#response.resume()
    this.#isPaused = false
    this.#response.cork(write)
  }

  readonly #isOpen = (): boolean => this.#state !== 'over'

  readonly #over = (): void => {
    if (this.#state === 'over') return
    this.#state = 'over'
    this.#chunks = null
    this.#owner.finished()
  }

  #abort(): void {
    if (this.#state === 'over') return
    this.#over()
    this.request?.leave()
  }

  #pause(): void {
    if (this.#state !== 'open' || this.#isPaused) return
    this.#isPaused = true
    this.#response.pause()
  }
}

/** What a HEAD answer states; a stream's length is not known. */
function lengthOf(body: Body): number | undefined {
  if (typeof body === 'string') return Buffer.byteLength(body)
  return body instanceof Uint8Array ? body.length : undefined
}
