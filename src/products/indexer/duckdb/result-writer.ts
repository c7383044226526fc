// Enforces row and byte limits of a result and writes it to the pipe in pieces with backpressure.
// Thread: main of a query process.
import type { QueryError, QueryLimits } from '../engine.ts'
import { exception } from '../exceptions.ts'

/** Destination of bytes. `write` resolves when more can be written, or when `wake` was called. */
export interface ByteSink {
  write(bytes: Uint8Array): Promise<void>
  wake(): void
}

/** Ends the result: with an error, or because the row limit is reached. */
export class ResultCut extends Error {
  readonly error: QueryError | null
  constructor(error: QueryError | null) {
    super('the result ends here')
    this.error = error
  }
}

/** Results up to this size are sent in one piece, so that a late error can replace them. */
const pieceChars = 64 * 1024

export class ResultWriter {
  rows = 0
  /** Bytes written to the pipe. */
  bytes = 0
  readonly #sink: ByteSink
  readonly #limits: QueryLimits
  readonly #isCancelled: () => boolean
  #buffered = ''
  /** Bytes of the result, sent and buffered. */
  #size = 0
  isFull = false

  constructor(sink: ByteSink, limits: QueryLimits, isCancelled: () => boolean) {
    this.#sink = sink
    this.#limits = limits
    this.#isCancelled = isCancelled
  }

  /** Adds rows, truncated at the row limit; `write` encodes the first `count` of them. */
  async chunk(count: number, write: (count: number) => string): Promise<void> {
    const room = this.#limits.rows - this.rows
    if (count > room && this.#limits.overflow === 'throw') throw new ResultCut(this.#tooManyRows())
    const taken = Math.min(count, room)
    this.rows += taken
    if (taken > 0) await this.text(write(taken))
    if (count > room || this.#size > this.#limits.resultBytes) this.isFull = true
  }

  async text(text: string): Promise<void> {
    this.#buffered += text
    this.#size += Buffer.byteLength(text)
    if (this.#size > this.#limits.resultBytes && this.#limits.overflow === 'throw')
      throw new ResultCut(this.#tooManyBytes())
    if (this.#buffered.length >= pieceChars) await this.flush()
  }

  /** Writes the format's footer, also after a result truncated on request. */
  async end(text: () => string): Promise<void> {
    this.#buffered += text()
    await this.flush()
  }

  /** Counts the rows of a result that is sent as a file. */
  count(rows: number): void {
    if (rows > this.#limits.rows) throw new ResultCut(this.#tooManyRows())
    this.rows = rows
  }

  /** Checks the size of a result file; a truncated file would be useless. */
  allow(bytes: number): void {
    if (bytes > this.#limits.resultBytes) throw new ResultCut(this.#tooManyBytes())
  }

  async piece(bytes: Uint8Array): Promise<void> {
    if (this.#isCancelled())
      throw new ResultCut(exception('QUERY_WAS_CANCELLED', 'the query was cancelled'))
    this.bytes += bytes.length
    await this.#sink.write(bytes)
  }

  async flush(): Promise<void> {
    if (this.#buffered === '') return
    const bytes = Buffer.from(this.#buffered)
    this.#buffered = ''
    await this.piece(bytes)
  }

  #tooManyRows(): QueryError {
    const { rows } = this.#limits
    return exception('TOO_MANY_ROWS', `the result has more than ${rows} rows; narrow it or LIMIT`)
  }

  #tooManyBytes(): QueryError {
    const { resultBytes } = this.#limits
    return exception('TOO_MANY_ROWS_OR_BYTES', `the result has more than ${resultBytes} bytes`)
  }
}
