// Messages that are never whole in memory: their parts go out one after another, at the reader's
// pace. Thread: any (pure). Made by build.ts, read by whoever sends answers.
import { assert } from '../base/assert.ts'

/** Bytes that come at the reader's pace, from a source that waits meanwhile. */
export interface ByteStream {
  /** The next bytes, null behind the last; rejects when the source broke off. One at a time;
   *  they are borrowed until the next one is asked for. */
  read(): Promise<Uint8Array | null>
  /** No more is wanted. Lawful at any time and more than once. */
  cancel(): void
}

export type Part = string | Uint8Array | ByteStream

/**
 * A message of several parts, read once, to the end or until `return`. A part that breaks off
 * rejects: what was read until then must not pass for a whole message.
 */
export class MessageStream implements AsyncIterableIterator<Uint8Array> {
  readonly #parts: readonly Part[]
  /** Told how many bytes went by. */
  onBytes: ((count: number) => void) | null = null
  #at = 0
  #isOver = false

  constructor(parts: readonly Part[]) {
    this.#parts = parts
  }

  /** The same message inside a longer one. */
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

/** A message in pieces that lie apart, for whoever can send them one behind the other. */
export class PiecedMessage {
  readonly pieces: readonly Uint8Array[]
  readonly length: number
  /** The pieces are sent and may be written over; nobody has to say so. */
  readonly release: (() => void) | undefined

  constructor(pieces: readonly Uint8Array[], release?: () => void) {
    this.pieces = pieces
    this.length = pieces.reduce((sum, piece) => sum + piece.length, 0)
    this.release = release
  }
}

/** For doors that send whole messages: they are handed no method that streams. */
export function whole(
  message: string | Uint8Array | PiecedMessage | MessageStream,
): string | Uint8Array {
  assert(!(message instanceof MessageStream), 'this door does not stream')
  return message instanceof PiecedMessage ? Buffer.concat(message.pieces) : message
}

/** The stream, and `done` run once when it is over: read to the end, broken off or cancelled. */
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
