// Memory in which batches reach the thread that writes them: bounded, and passed to and fro. Not
// shared, as a copy to shared memory takes 1.6 times as long.
//
//   chunk   | room for a head | batch | room for a head | batch | …   records, see the format
import { batchRecordBytes, layOutBatch } from './segment-format.ts'

/** A turn's worth, see `turnBytes`; a longer batch is sent in memory of its own. */
const chunkBytes = 1024 * 1024
/** While as much is with the thread, batches wait where they are. */
export const lentBytesMax = 8 * chunkBytes

/** Records without heads, one behind the other, by their ends. */
export interface LaidOut {
  readonly chunk: ArrayBuffer
  readonly ends: readonly number[]
}

export class BatchChunks {
  readonly #post: (laidOut: LaidOut) => void
  readonly #free: ArrayBuffer[] = []
  #lentBytes = 0
  #current: Buffer<ArrayBuffer> | null = null
  #ends: number[] = []

  constructor(post: (laidOut: LaidOut) => void) {
    this.#post = post
  }

  /** False while too much is lent: the batch is to be added again after some is given back. */
  add(table: Uint8Array, bytes: Uint8Array): boolean {
    const needed = batchRecordBytes(table, bytes)
    if (this.#current !== null && this.#at + needed > this.#current.length) this.flush()
    this.#current ??= this.#take(needed)
    if (this.#current === null) return false
    layOutBatch(this.#current.subarray(this.#at, this.#at + needed), table, bytes)
    this.#ends.push(this.#at + needed)
    return true
  }

  /** Posts what was added since the last one. */
  flush(): void {
    if (this.#current === null || this.#ends.length === 0) return
    const chunk = this.#current.buffer
    this.#lentBytes += chunk.byteLength
    this.#post({ chunk, ends: this.#ends })
    this.#current = null
    this.#ends = []
  }

  /** The thread has written, or passed over, what is in one. */
  giveBack(chunk: ArrayBuffer): void {
    this.#lentBytes = Math.max(0, this.#lentBytes - chunk.byteLength)
    if (chunk.byteLength === chunkBytes) this.#free.push(chunk)
  }

  /** What the thread has not given back by now does not come: it ended meanwhile. */
  forgetLent(): void {
    this.#lentBytes = 0
  }

  get #at(): number {
    return this.#ends.at(-1) ?? 0
  }

  #take(needed: number): Buffer<ArrayBuffer> | null {
    if (this.#lentBytes >= lentBytesMax) return null
    if (needed > chunkBytes) return Buffer.from(new ArrayBuffer(needed))
    return Buffer.from(this.#free.pop() ?? new ArrayBuffer(chunkBytes))
  }
}
