// LRU cache of answers that can never change, bounded by bytes of keys and answers.
// Bytes that are being collected from a stream count from the first one.

import { type Answer, type ByteStream, encodedBytes } from '../../base/jsonrpc/build.ts'
import { LruMap } from '../../base/lru-map.ts'

/** Largest share for one answer, so that a few long ones do not evict all others. */
const SHARE_MAX = 1 / 8
/** Overhead per entry, roughly. */
const ENTRY_BYTES = 200

interface Entry {
  readonly answer: Answer
  readonly bytes: number
}

export class AnswerCache {
  readonly #bytesMax: number
  readonly #entries = new LruMap<string, Entry>()
  #bytes = 0
  #collecting = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  get bytes(): number {
    return this.#bytes + this.#collecting
  }

  get size(): number {
    return this.#entries.size
  }

  get(key: string): Answer | null {
    return this.#entries.get(key)?.answer ?? null
  }

  /** Caches a copy of a result; errors, null and what is too long are not cached. */
  put(key: string, answer: Answer): void {
    if (answer.kind === 'text') {
      if (answer.text === 'null') return
      // A copy: a slice would retain the longer text that it was cut from.
      const text = Buffer.from(answer.text, 'latin1').toString('latin1')
      this.#add(key, { kind: 'text', text }, text.length)
    } else if (answer.kind === 'bytes') {
      const length = answer.pieces.reduce((sum, piece) => sum + piece.length, 0)
      // A copy: the pieces may be views of a pooled buffer.
      if (length <= this.#entryBytesMax())
        this.#add(key, encodedBytes(Buffer.concat(answer.pieces)), length)
    }
  }

  /** The same stream; what is read from it is cached when it ends and is not too long. */
  collect(key: string, stream: ByteStream): ByteStream {
    let pieces: Uint8Array[] | null = []
    let length = 0
    const drop = () => {
      if (pieces !== null) this.#collecting -= length
      pieces = null
    }
    const take = (bytes: Uint8Array) => {
      if (pieces === null) return
      if (
        length + bytes.length > this.#entryBytesMax() ||
        this.#collecting + bytes.length > this.#bytesMax
      )
        return drop()
      pieces.push(Buffer.from(bytes))
      length += bytes.length
      this.#collecting += bytes.length
      this.#evict()
    }
    const finish = () => {
      if (pieces === null) return
      const whole = Buffer.concat(pieces)
      drop()
      this.#add(key, encodedBytes(whole), whole.length)
    }
    return {
      async read() {
        try {
          const bytes = await stream.read()
          if (bytes === null) finish()
          else take(bytes)
          return bytes
        } catch (error) {
          drop()
          throw error
        }
      },
      cancel() {
        drop()
        stream.cancel()
      },
    }
  }

  #add(key: string, answer: Answer, length: number): void {
    const bytes = length + key.length + ENTRY_BYTES
    if (bytes > this.#entryBytesMax()) return
    this.#bytes -= this.#entries.peek(key)?.bytes ?? 0
    this.#entries.set(key, { answer, bytes })
    this.#bytes += bytes
    this.#evict()
  }

  #evict(): void {
    while (this.bytes > this.#bytesMax && this.#entries.size > 0)
      this.#bytes -= this.#entries.evict()!.bytes
  }

  #entryBytesMax(): number {
    return this.#bytesMax * SHARE_MAX
  }
}
