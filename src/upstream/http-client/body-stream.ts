// Streams a response body that is too long to hold, with backpressure. Thread: main.
// The connection is paused while enough is queued here, in a few blocks that are reused. Any
// failure on the way rejects: half a body must never look like a whole one.
import { assert } from '../../base/assert.ts'
import type { ByteStream } from '../../jsonrpc/message-stream.ts'

const BLOCK_BYTES = 65_536
/** Above this the connection is paused. */
const QUEUED_BYTES_MAX = 2 * BLOCK_BYTES

/** Where the bytes come from. */
export interface BodySource {
  pause(): void
  resume(): void
  abort(): void
}

/** How a stream ended: read whole, broken by the server, or cancelled by its reader. */
export type StreamEnd = 'ok' | 'broken' | 'aborted'

interface Reader {
  resolve(bytes: Uint8Array | null): void
  reject(error: Error): void
}

interface Block {
  readonly bytes: Buffer
  /** Bytes before it are not part of the stream. */
  start: number
  end: number
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
  readonly #queue: Block[] = []
  readonly #free: Block[] = []
  #close!: (end: StreamEnd) => void
  /** What the reader has, until it asks for more. */
  #lent: Block | null = null
  #queuedBytes = 0
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

  /** The first bytes as Latin-1 text, up to a block; they stay in the stream. */
  peek(bytesMax: number): string {
    const first = this.#queue[0]
    return first === undefined
      ? ''
      : first.bytes.toString('latin1', 0, Math.min(first.end, bytesMax))
  }

  get queuedBytes(): number {
    return this.#queuedBytes
  }

  /**
   * Removes an envelope: the first `start` bytes, and what follows the body's value. `keep` gets
   * the last `tailBytes` as Latin-1 text and returns how many of them belong to the value, or -1
   * when the body is broken. Called before the first read; `start` is within what was peeked.
   */
  trim(start: number, tailBytes: number, keep: (tail: string) => number): void {
    this.#queue[0]!.start = start
    this.#queuedBytes -= start
    this.#trim = { tailBytes, keep }
    if (this.#state === 'received') this.#cutTail()
  }

  read(): Promise<Uint8Array | null> {
    if (this.#lent !== null) this.#release(this.#lent)
    this.#lent = null
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
    this.#finish('over', 'aborted')
    if (wasOpen) this.#source.abort()
    this.#reader?.resolve(null)
    this.#reader = null
  }

  /** More bytes of the body; copied. */
  push(bytes: Buffer): void {
    if (this.#state !== 'open') return
    this.#queuedBytes += bytes.length
    for (let at = 0; at < bytes.length; ) {
      const block = this.#lastWithRoom()
      const count = Math.min(bytes.length - at, BLOCK_BYTES - block.end)
      bytes.copy(block.bytes, block.end, at, at + count)
      block.end += count
      at += count
    }
    this.#serve()
    if (this.#reader !== null || this.#isPaused || this.#queuedBytes <= QUEUED_BYTES_MAX) return
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

  /** The connection was lost before the end of the body. */
  fail(): void {
    if (this.#state !== 'open' && this.#state !== 'received') return
    this.#finish('broken', 'broken')
    this.#reader?.reject(brokenOff())
    this.#reader = null
  }

  #cutTail(): void {
    const tail = this.#tail()
    const kept = this.#trim!.keep(tail)
    if (kept < 0) {
      this.fail()
      return
    }
    this.#drop(tail.length - kept)
    this.#close('ok')
  }

  #finish(state: 'broken' | 'over', end: StreamEnd): void {
    this.#state = state
    this.#queue.length = this.#free.length = this.#queuedBytes = 0
    this.#close(end)
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
    const next = this.#queue[0]
    if (next === undefined) {
      if (this.#state !== 'received') return undefined
      this.#finish('over', 'ok')
      return null
    }
    const length = next.end - next.start
    const heldBack = this.#trim?.tailBytes ?? 0
    if (this.#state === 'open' && this.#queuedBytes - length < heldBack) return undefined
    this.#queue.shift()
    this.#queuedBytes -= length
    this.onBytes?.(length)
    this.#lent = next
    return next.bytes.subarray(next.start, next.end)
  }

  #lastWithRoom(): Block {
    const last = this.#queue[this.#queue.length - 1]
    if (last !== undefined && last.end < BLOCK_BYTES) return last
    const block = this.#free.pop() ?? {
      bytes: Buffer.allocUnsafeSlow(BLOCK_BYTES),
      start: 0,
      end: 0,
    }
    block.start = block.end = 0
    this.#queue.push(block)
    return block
  }

  #release(block: Block): void {
    assert(
      !this.#free.includes(block) && !this.#queue.includes(block),
      'a block was released twice',
    )
    this.#free.push(block)
  }

  /** The last bytes of what is queued, as text. */
  #tail(): string {
    let text = ''
    for (let at = this.#queue.length - 1; at >= 0; at--) {
      const { bytes, start, end } = this.#queue[at]!
      const from = Math.max(start, end - (this.#trim!.tailBytes - text.length))
      text = bytes.toString('latin1', from, end) + text
    }
    return text
  }

  #drop(count: number): void {
    this.#queuedBytes -= count
    for (let left = count; left > 0; ) {
      const last = this.#queue[this.#queue.length - 1]!
      const taken = Math.min(left, last.end - last.start)
      last.end -= taken
      left -= taken
      if (last.end === last.start) this.#queue.pop()
    }
  }
}

function brokenOff(): Error {
  return new Error('the node broke off')
}
