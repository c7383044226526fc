// The bytes of a result off a query process's pipe, one result after the other. Thread: main.
// Holds a bounded amount: while the reader is slow the pipe stays full, and the engine waits.
import type { Duplex } from 'node:stream'

const heldBytesMax = 256 * 1024

export class ResultBytes {
  readonly #pipe: Duplex
  #chunks: Buffer[] = []
  #held = 0
  /** Bytes of this result that have come. */
  received = 0
  /** All of them, once it is known. */
  #total: number | null = null
  #isDiscarding = false
  #isOver = false
  #waiting: (() => void) | null = null

  constructor(pipe: Duplex) {
    this.#pipe = pipe
    pipe.on('data', (chunk: Buffer) => this.#take(chunk))
  }

  /** For the next result. What the last one left was discarded to its end. */
  begin(): void {
    this.#chunks = []
    this.#held = 0
    this.received = 0
    this.#total = null
    this.#isDiscarding = false
    this.#pipe.resume()
  }

  /** How many bytes there are in all. */
  expect(total: number): void {
    this.#total = total
    this.#wake()
  }

  /** The reader went away: bytes are taken off the pipe and dropped, so that the query can end. */
  discard(): void {
    this.#isDiscarding = true
    this.#chunks = []
    this.#held = 0
    this.#pipe.resume()
    this.#wake()
  }

  /** The process is gone: no more will come. */
  end(): void {
    this.#isOver = true
    this.#wake()
  }

  /** True while the reader, and not the engine, is what everybody waits for. */
  get isFull(): boolean {
    return this.#held >= heldBytesMax
  }

  get hasSome(): boolean {
    return this.#held > 0
  }

  /** True when all that was announced has come. */
  get isWhole(): boolean {
    return this.#total !== null && this.received >= this.#total
  }

  /** True when all of it has come and was read. */
  get isDrained(): boolean {
    return this.isWhole && this.#held === 0
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
        this.#held -= chunk.length
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
      this.#held += chunk.length
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
