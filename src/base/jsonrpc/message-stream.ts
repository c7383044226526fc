// Streams messages that are never whole in memory: their chunks are sent one after another, with
// backpressure from the reader.
import { assert } from '../assert.ts'

/** Bytes read on demand, from a source that waits meanwhile (backpressure). */
export interface ByteStream {
  /** The next bytes, null after the last; rejects when the source failed. One read at a time;
   *  the bytes are borrowed until the next read. */
  read(): Promise<Uint8Array | null>
  /** Stops the source. Allowed at any time and more than once. */
  cancel(): void
}

export type Part = string | Uint8Array | ByteStream

/**
 * A message of several parts, read once, to the end or until `return`. A part that fails rejects:
 * what was read until then must not be taken for a whole message.
 */
export class MessageStream implements AsyncIterableIterator<Uint8Array> {
  readonly #parts: readonly Part[]
  /** Called with the number of bytes of each chunk. */
  onBytes: ((count: number) => void) | null = null
  #at = 0
  #isOver = false

  constructor(parts: readonly Part[]) {
    this.#parts = parts
  }

  /** The parts, for embedding the message in a longer one. */
  get parts(): readonly Part[] {
    return this.#parts
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    try {
      while (!this.#isOver && this.#at < this.#parts.length) {
        const part = this.#parts[this.#at]!
        if (isStream(part)) {
          const bytes = await part.read()
          if (bytes !== null) return this.#give(bytes)
          this.#at++
        } else {
          this.#at++
          return this.#give(typeof part === 'string' ? Buffer.from(part) : part)
        }
      }
    } catch (error) {
      this.#end()
      throw error
    }
    this.#end()
    return { done: true, value: undefined }
  }

  return(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.#end()
    return Promise.resolve({ done: true, value: undefined })
  }

  #give(value: Uint8Array): IteratorResult<Uint8Array, undefined> {
    this.onBytes?.(value.length)
    return { done: false, value }
  }

  #end(): void {
    if (this.#isOver) return
    this.#isOver = true
    for (const part of this.#parts.slice(this.#at)) if (isStream(part)) part.cancel()
  }
}

/** A message in separate pieces, for senders that can write them one after another. */
export class PiecedMessage {
  readonly pieces: readonly Uint8Array[]
  readonly length: number
  /** Reports that the pieces are sent and may be overwritten; calling it is optional. */
  readonly release: (() => void) | undefined

  constructor(pieces: readonly Uint8Array[], release?: () => void) {
    this.pieces = pieces
    this.length = pieces.reduce((sum, piece) => sum + piece.length, 0)
    this.release = release
  }
}

/** For endpoints that send whole messages: none of their methods streams. */
export function whole(
  message: string | Uint8Array | PiecedMessage | MessageStream,
): string | Uint8Array {
  assert(!(message instanceof MessageStream), 'this endpoint does not stream')
  return message instanceof PiecedMessage ? Buffer.concat(message.pieces) : message
}

/** Wraps a stream: `done` runs once when it is read to the end, failed or cancelled. */
export function watched(stream: ByteStream, done: () => void): ByteStream {
  let isOver = false
  const end = () => {
    if (!isOver) done()
    isOver = true
  }
  return {
    async read() {
      try {
        const bytes = await stream.read()
        if (bytes === null) end()
        return bytes
      } catch (error) {
        end()
        throw error
      }
    },
    cancel() {
      stream.cancel()
      end()
    },
  }
}

function isStream(part: Part): part is ByteStream {
  return typeof part !== 'string' && !(part instanceof Uint8Array)
}
