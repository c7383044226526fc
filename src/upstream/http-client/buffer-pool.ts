// Pools the buffers in which whole response bodies are collected: fresh memory for every body of
// 100 kB costs more than forwarding it.
// Each body has a `PooledBuffer` of its own, so that a second release throws instead of pooling one
// buffer twice and mixing the bytes of two customers. A buffer that is never released is left to
// the garbage collector.
import { assert } from '../../base/assert.ts'

/** Capacity of a pooled buffer, and so the longest body that is collected whole. */
export const POOLED_BYTES = 262_144
/** Shorter bodies get memory of their own. */
const POOLED_FROM_BYTES = 16_384
const FREE_MAX = 32

const free: Buffer[] = []

export class PooledBuffer {
  readonly #buffer: Buffer
  #length = 0
  #isReleased = false

  /** Has capacity for at least `bytes`. */
  constructor(bytes: number) {
    this.#buffer =
      bytes < POOLED_FROM_BYTES
        ? Buffer.allocUnsafe(bytes)
        : (free.pop() ?? Buffer.allocUnsafeSlow(POOLED_BYTES))
  }

  /** What was appended; must not be read after the release. */
  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length)
  }

  append(chunk: Buffer): void {
    chunk.copy(this.#buffer, this.#length)
    this.#length += chunk.length
  }

  /** The bytes before `at` followed by this text, in place of what was there; null without room. */
  endAt(at: number, text: string): Buffer | null {
    assert(!this.#isReleased && at <= this.#length, 'only what was appended can be ended')
    const end = at + Buffer.byteLength(text)
    if (end > this.#buffer.length) return null
    this.#buffer.write(text, at)
    return this.#buffer.subarray(0, end)
  }

  release(): void {
    assert(!this.#isReleased, 'a response buffer was released twice')
    this.#isReleased = true
    if (this.#buffer.length === POOLED_BYTES && free.length < FREE_MAX) free.push(this.#buffer)
  }
}
