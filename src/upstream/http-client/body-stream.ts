// Streams a response body that is too long to buffer, with backpressure.
// The bytes wait in a ring; the connection is paused while it is nearly full. Any failure rejects:
// half a body must never look like a whole one.
//
//   ring:  …free │ lent to the reader │ queued │ held back: the tail │ free…
//                #start               #next                          #end
import { assert } from '../../base/errors.ts'
import type { ByteStream } from '../../base/jsonrpc/build.ts'

// Pools the buffers in which whole response bodies are collected: fresh memory for every body of
// 100 kB costs more than forwarding it.
// Each body has a `PooledBuffer` of its own, so that a second release throws instead of pooling one
// buffer twice and mixing the bytes of two customers. A buffer that is never released is left to
// the garbage collector.

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
    assert(!this.#isReleased, 'a response buffer was written after its release')
    chunk.copy(this.#buffer, this.#length)
    this.#length += chunk.length
    assert(this.#length <= this.#buffer.length, 'a response fits its buffer')
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

/** Bytes of one push at most: a read of the connection. */
export const CHUNK_BYTES = 65_536
/** A body that was collected first, the chunk that made it too long, and one more. */
const RING_BYTES = POOLED_BYTES + 2 * CHUNK_BYTES

/** Where the bytes come from. */
export interface BodySource {
  pause(): void
  resume(): void
  abort(): void
}

/** How a stream ended: received whole, broken by the server, or cancelled by its reader. */
export type StreamEnd = 'ok' | 'broken' | 'aborted'

interface Reader {
  resolve(bytes: Uint8Array | null): void
  reject(error: Error): void
}

interface Trim {
  readonly tailBytes: number
  readonly keep: (tail: string) => number
}

export class BodyStream implements ByteStream {
  /** Resolved when nothing more comes from the server. */
  readonly closed: Promise<StreamEnd>
  /** Called with the number of bytes of each read. */
  onBytes: ((count: number) => void) | null = null
  readonly #source: BodySource
  readonly #ring = Buffer.allocUnsafeSlow(RING_BYTES)
  #close!: (end: StreamEnd) => void
  /** Offsets in the body: of what the reader still has, of what it gets next, after the last. */
  #start = 0
  #next = 0
  #end = 0
  #reader: Reader | null = null
  #state: 'open' | 'received' | 'broken' | 'over' = 'open'
  #isPaused = false
  #trim: Trim | null = null

  constructor(source: BodySource) {
    this.#source = source
    this.closed = new Promise((resolve) => {
      this.#close = resolve
    })
  }

  /** The first bytes as Latin-1 text; they stay in the stream. Called before the first read. */
  peek(bytesMax: number): string {
    return this.#text(0, Math.min(bytesMax, this.#end))
  }

  /**
   * Removes an envelope: the first `start` bytes, and what follows the body's value. `keep` gets
   * the last `tailBytes` as Latin-1 text and returns how many of them belong to the value, or -1
   * when the body is broken. Called before the first read; `start` is within what was peeked.
   */
  trim(start: number, tailBytes: number, keep: (tail: string) => number): void {
    this.#start = this.#next = start
    this.#trim = { tailBytes, keep }
    if (this.#state === 'received') this.#cutTail()
  }

  read(): Promise<Uint8Array | null> {
    this.#start = this.#next
    const ready = this.#take()
    if (ready !== undefined) return Promise.resolve(ready)
    if (this.#state === 'broken') return Promise.reject(brokenOff())
    if (this.#state === 'over') return Promise.resolve(null)
    return new Promise((resolve, reject) => {
      this.#reader = { resolve, reject }
      // More may be pushed before this returns.
      if (this.#isPaused) {
        this.#isPaused = false
        this.#source.resume()
      }
    })
  }

  cancel(): void {
    const wasOpen = this.#state === 'open'
    this.#state = 'over'
    this.#next = this.#end
    this.#close('aborted')
    if (wasOpen) this.#source.abort()
    this.#reader?.resolve(null)
    this.#reader = null
  }

  /** More bytes of the body; copied. */
  push(bytes: Buffer): void {
    if (this.#state !== 'open') return
    assert(bytes.length <= this.#freeBytes(), 'a streamed body has space for what is read')
    const at = this.#end % RING_BYTES
    const count = bytes.copy(this.#ring, at)
    if (count < bytes.length) bytes.copy(this.#ring, 0, count)
    this.#end += bytes.length
    this.#serve()
    if (this.#isPaused || this.#freeBytes() >= 2 * CHUNK_BYTES) return
    this.#isPaused = true
    this.#source.pause()
  }

  /** The body is whole. */
  end(): void {
    if (this.#state !== 'open') return
    this.#state = 'received'
    if (this.#trim !== null) this.#cutTail()
    this.#serve()
  }

  /** The connection was lost before the end of the body, or the end is not that of a value. */
  fail(): void {
    if (this.#state !== 'open' && this.#state !== 'received') return
    this.#state = 'broken'
    this.#next = this.#end
    this.#close('broken')
    this.#reader?.reject(brokenOff())
    this.#reader = null
  }

  #cutTail(): void {
    const { tailBytes, keep } = this.#trim!
    const from = Math.max(this.#next, this.#end - tailBytes)
    const kept = keep(this.#text(from, this.#end))
    if (kept < 0) {
      this.fail()
      return
    }
    this.#end = from + kept
    this.#close('ok')
  }

  #serve(): void {
    if (this.#reader === null) return
    const ready = this.#take()
    if (ready === undefined) return
    const { resolve } = this.#reader
    this.#reader = null
    resolve(ready)
  }

  /** Bytes that surely belong to the value; null after the last, undefined when none is ready. */
  #take(): Uint8Array | null | undefined {
    const isReceived = this.#state === 'received'
    if (!isReceived && this.#state !== 'open') return undefined
    const heldBack = isReceived ? 0 : (this.#trim?.tailBytes ?? 0)
    const at = this.#next % RING_BYTES
    const length = Math.min(this.#end - heldBack - this.#next, RING_BYTES - at)
    if (length > 0) {
      this.#next += length
      this.onBytes?.(length)
      return this.#ring.subarray(at, at + length)
    }
    if (!isReceived) return undefined
    this.#state = 'over'
    this.#close('ok')
    return null
  }

  #freeBytes(): number {
    return RING_BYTES - (this.#end - this.#start)
  }

  #text(from: number, to: number): string {
    const at = from % RING_BYTES
    const first = this.#ring.toString('latin1', at, Math.min(at + to - from, RING_BYTES))
    return first + this.#ring.toString('latin1', 0, to - from - first.length)
  }
}

function brokenOff(): Error {
  return new Error('the node broke off')
}
