// Answers that can never change, the least used of them dropped first. Thread: main.
// Owned by proxy-set.ts, one per set: nodes of two sets may stand in two clusters. Bounded by bytes
// of keys and answers; what is being collected from a stream counts from its first byte.
import { type Answer, encodedBytes } from '../../jsonrpc/build.ts'
import type { ByteStream } from '../../jsonrpc/message-stream.ts'

/** One answer may take this part of the whole, so that a few long ones do not empty it. */
const PART_MAX = 1 / 8
/** Bookkeeping per entry, roughly. */
const ENTRY_BYTES = 200

interface Entry {
  readonly answer: Answer
  readonly bytes: number
}

export class AnswerCache {
  readonly #bytesMax: number
  /** In the order of use, the latest last. */
  readonly #entries = new Map<string, Entry>()
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
    const entry = this.#entries.get(key)
    if (entry === undefined) return null
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    return entry.answer
  }

  /** Keeps a result; errors, null and what is too long are not kept. */
  put(key: string, answer: Answer): void {
    if (answer.kind === 'text') {
      if (answer.text === 'null') return
      this.#keep(key, { kind: 'text', text: ownText(answer.text) }, answer.text.length)
    } else if (answer.kind === 'bytes') {
      const length = lengthOf(answer.pieces)
      // A copy: the pieces may be views of something longer.
      if (length <= this.#partMax())
        this.#keep(key, encodedBytes(Buffer.concat(answer.pieces)), length)
    }
  }

  /** The same stream; what passes is kept when it comes to its end and is not too long. */
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
        length + bytes.length > this.#partMax() ||
        this.#collecting + bytes.length > this.#bytesMax
      )
        return drop()
      pieces.push(Buffer.from(bytes))
      length += bytes.length
      this.#collecting += bytes.length
      this.#shrink()
    }
    const finish = () => {
      if (pieces === null) return
      const whole = Buffer.concat(pieces)
      drop()
      this.#keep(key, encodedBytes(whole), whole.length)
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

  #keep(key: string, answer: Answer, length: number): void {
    const bytes = length + key.length + ENTRY_BYTES
    if (bytes > this.#partMax()) return
    const before = this.#entries.get(key)
    if (before !== undefined) this.#bytes -= before.bytes
    this.#entries.delete(key)
    this.#entries.set(key, { answer, bytes })
    this.#bytes += bytes
    this.#shrink()
  }

  #shrink(): void {
    for (const [key, { bytes }] of this.#entries) {
      if (this.bytes <= this.#bytesMax) return
      this.#entries.delete(key)
      this.#bytes -= bytes
    }
  }

  #partMax(): number {
    return this.#bytesMax * PART_MAX
  }
}

/** A text of its own: a slice would keep the longer text that it was cut from. */
function ownText(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1')
}

function lengthOf(pieces: readonly Uint8Array[]): number {
  return pieces.reduce((sum, piece) => sum + piece.length, 0)
}
