// Reads result bytes from a query process's pipe, one result after the other.
// Backpressure: the buffer is bounded; while the reader is slow the pipe is full and DuckDB waits.
import type { Duplex } from 'node:stream'

const bufferedBytesMax = 256 * 1024

export class ResultBytes {
  readonly #pipe: Duplex
  #chunks: Buffer[] = []
  #buffered = 0
  /** Bytes of this result received so far. */
  received = 0
  /** Bytes of the whole result, once known. */
  #total: number | null = null
  #isDiscarding = false
  #isOver = false
  #waiting: (() => void) | null = null

  constructor(pipe: Duplex) {
    this.#pipe = pipe
    pipe.on('data', (chunk: Buffer) => this.#take(chunk))
  }

  /** Resets for the next result. The rest of the previous one was discarded. */
  begin(): void {
    this.#chunks = []
    this.#buffered = 0
    this.received = 0
    this.#total = null
    this.#isDiscarding = false
    this.#pipe.resume()
  }

  /** Sets the size of the whole result. */
  expect(total: number): void {
    this.#total = total
    this.#wake()
  }

  /** The reader is gone: bytes are read from the pipe and dropped, so that the query can end. */
  discard(): void {
    this.#isDiscarding = true
    this.#chunks = []
    this.#buffered = 0
    this.#pipe.resume()
    this.#wake()
  }

  /** The process is gone: no more bytes follow. */
  end(): void {
    this.#isOver = true
    this.#wake()
  }

  /** True while the reader, and not the engine, is the bottleneck. */
  get isFull(): boolean {
    return this.#buffered >= bufferedBytesMax
  }

  get hasSome(): boolean {
    return this.#buffered > 0
  }

  /** True when all bytes of the result were received. */
  get isWhole(): boolean {
    return this.#total !== null && this.received >= this.#total
  }

  /** True when all bytes of the result were received and read. */
  get isDrained(): boolean {
    return this.isWhole && this.#buffered === 0
  }

  /** Resolves at the next change: bytes, the total, or the end. */
  change(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting = resolve
    })
  }

  /** The next bytes; null when the result is at its end. */
  async next(): Promise<Buffer | null> {
    for (;;) {
      const chunk = this.#chunks.shift()
      if (chunk !== undefined) {
        this.#buffered -= chunk.length
        if (!this.isFull) this.#pipe.resume()
        return chunk
      }
      if (this.isWhole || this.#isOver || this.#isDiscarding) return null
      await this.change()
    }
  }

  #take(chunk: Buffer): void {
    this.received += chunk.length
    if (!this.#isDiscarding) {
      this.#chunks.push(chunk)
      this.#buffered += chunk.length
      if (this.isFull) this.#pipe.pause()
    }
    this.#wake()
  }

  #wake(): void {
    const waiting = this.#waiting
    this.#waiting = null
    waiting?.()
  }
}
