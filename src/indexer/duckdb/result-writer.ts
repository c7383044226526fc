// Enforces row and byte limits of a result and writes it to the pipe in pieces with backpressure.
// Thread: main of a query process.
import { open } from 'node:fs/promises'
import { exception, type QueryError } from '../clickhouse/exceptions.ts'
import type { QueryLimits } from '../engine.ts'

/** Destination of bytes. `write` resolves when more can be written, or when `wake` was called. */
export interface ByteSink {
  write(bytes: Uint8Array): Promise<void>
  wake(): void
}

/** Ends the result with an error. */
export class ResultCut extends Error {
  readonly error: QueryError
  constructor(error: QueryError) {
    super('the result ends here')
    this.error = error
  }
}

/** Results up to this size are sent in one piece, so that a late error can replace them. */
const pieceBytes = 64 * 1024

export class ResultWriter {
  rows = 0
  /** Bytes written to the pipe. */
  bytes = 0
  readonly #sink: ByteSink
  readonly #limits: QueryLimits
  readonly #isCancelled: () => boolean
  #buffered: Uint8Array[] = []
  #bufferedBytes = 0
  isFull = false

  constructor(sink: ByteSink, limits: QueryLimits, isCancelled: () => boolean) {
    this.#sink = sink
    this.#limits = limits
    this.#isCancelled = isCancelled
  }

  /** Counts rows up to the limit and returns how many of them may be written. */
  take(count: number): number {
    const room = this.#limits.rows - this.rows
    if (count > room && this.#limits.overflow === 'throw') throw new ResultCut(this.#tooManyRows())
    const taken = Math.min(count, room)
    this.rows += taken
    if (count > room) this.isFull = true
    return taken
  }

  async write(bytes: Uint8Array): Promise<void> {
    this.#buffered.push(bytes)
    this.#bufferedBytes += bytes.length
    if (this.bytes + this.#bufferedBytes > this.#limits.resultBytes) {
      if (this.#limits.overflow === 'throw') throw new ResultCut(this.#tooManyBytes())
      this.isFull = true
    }
    if (this.#bufferedBytes >= pieceBytes) await this.flush()
  }

  /** Writes the format's footer, also after a result truncated on request. */
  async end(bytes: Uint8Array): Promise<void> {
    this.#buffered.push(bytes)
    this.#bufferedBytes += bytes.length
    await this.flush()
  }

  /** Checks the size of a result file; a truncated file would be useless. */
  allow(bytes: number): void {
    if (bytes > this.#limits.resultBytes) throw new ResultCut(this.#tooManyBytes())
  }

  async flush(): Promise<void> {
    if (this.#bufferedBytes === 0) return
    if (this.#isCancelled())
      throw new ResultCut(exception('QUERY_WAS_CANCELLED', 'the query was cancelled'))
    const pieces = this.#buffered
    const piece = pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)
    this.#buffered = []
    this.#bufferedBytes = 0
    this.bytes += piece.length
    await this.#sink.write(piece)
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

/** Writes the bytes of a file. */
export async function sendFile(path: string, out: ResultWriter): Promise<void> {
  const file = await open(path, 'r')
  try {
    const { size } = await file.stat()
    out.allow(size)
    for (;;) {
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(pieceBytes), 0, pieceBytes)
      if (bytesRead === 0) return
      await out.write(buffer.subarray(0, bytesRead))
    }
  } finally {
    await file.close()
  }
}
