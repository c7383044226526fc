// A long result on its way from a node, at the reader's pace. Thread: main.
// Made by attempt.ts once an answer is too long to hold. The node's connection is paused while
// enough is queued here, in a few blocks that are used again and again; the last bytes are held
// back until the answer's end has shown which of them belong to the result. Whatever goes wrong on
// the way rejects: half a result must never look like a whole one.
import { CLOSING_BYTES, closingOf, isPair } from '../../jsonrpc/envelope.ts'
import type { ByteStream } from '../../jsonrpc/message-stream.ts'
import type { NodeCall } from '../node-call.ts'
import type { ProxyTally } from './meters.ts'

const BLOCK_BYTES = 65_536
/** Beyond this the node's connection is paused. */
const QUEUED_BYTES_MAX = 2 * BLOCK_BYTES

interface Reader {
  resolve(bytes: Uint8Array | null): void
  reject(error: Error): void
}

interface Block {
  readonly bytes: Buffer
  length: number
}

export class NodeStream implements ByteStream {
  readonly #call: NodeCall
  readonly #tally: ProxyTally
  readonly #first: number
  readonly #id: string
  readonly #queue: Block[] = []
  readonly #spare: Block[] = []
  /** What the reader has; his until he asks for more. */
  #lent: Block | null = null
  #queued = 0
  #reader: Reader | null = null
  #state: 'open' | 'ended' | 'broken' | 'over' = 'open'
  #isPaused = false

  /** `first` begins with the result's first byte; `id` is that of the call. */
  constructor(call: NodeCall, first: Buffer, tally: ProxyTally, id = '1') {
    this.#call = call
    this.#tally = tally
    this.#first = first[0] ?? 0
    this.#id = id
    tally.streams++
    this.push(first)
  }

  read(): Promise<Uint8Array | null> {
    if (this.#lent !== null) this.#spare.push(this.#lent)
    this.#lent = null
    const ready = this.#take()
    if (ready !== undefined) return Promise.resolve(ready)
    if (this.#state === 'broken') return Promise.reject(brokenOff())
    if (this.#state === 'over') return Promise.resolve(null)
    return new Promise((resolve, reject) => {
      this.#reader = { resolve, reject }
      // More may come before this returns.
      this.#resume()
    })
  }

  cancel(): void {
    if (this.#state === 'open') this.#call.abort()
    this.#state = 'over'
    this.#clear()
    this.#reader?.resolve(null)
    this.#reader = null
  }

  /** More bytes from the node, borrowed. */
  push(bytes: Buffer): void {
    if (this.#state !== 'open') return
    this.#queued += bytes.length
    for (let at = 0; at < bytes.length; ) {
      const block = this.#lastWithRoom()
      const count = Math.min(bytes.length - at, BLOCK_BYTES - block.length)
      bytes.copy(block.bytes, block.length, at, at + count)
      block.length += count
      at += count
    }
    this.#serve()
    if (this.#reader === null && this.#queued > QUEUED_BYTES_MAX) this.#pause()
  }

  /** The node's answer is whole; it may still turn out to be none. */
  end(): void {
    if (this.#state !== 'open') return
    const tail = this.#tail()
    const closing = closingOf(tail, this.#id)
    if (closing < 1 || !isPair(this.#first, tail.charCodeAt(closing - 1))) {
      this.fail()
      return
    }
    this.#drop(tail.length - closing)
    this.#state = 'ended'
    this.#serve()
  }

  /** The node will send no more, and this was not all. */
  fail(): void {
    if (this.#state !== 'open') return
    this.#tally.streamsBroken++
    this.#state = 'broken'
    this.#clear()
    this.#reader?.reject(brokenOff())
    this.#reader = null
  }

  #serve(): void {
    if (this.#reader === null) return
    const ready = this.#take()
    if (ready === undefined) return
    const { resolve } = this.#reader
    this.#reader = null
    resolve(ready)
  }

  /** Bytes that surely belong to the result; null behind the last; undefined when none is sure. */
  #take(): Uint8Array | null | undefined {
    const next = this.#queue[0]
    if (next === undefined) {
      if (this.#state !== 'ended') return undefined
      this.#state = 'over'
      return null
    }
    if (this.#state === 'open' && this.#queued - next.length < CLOSING_BYTES) return undefined
    this.#queue.shift()
    this.#queued -= next.length
    this.#tally.streamedBytes += next.length
    this.#lent = next
    return next.bytes.subarray(0, next.length)
  }

  #lastWithRoom(): Block {
    const last = this.#queue[this.#queue.length - 1]
    if (last !== undefined && last.length < BLOCK_BYTES) return last
    const block = this.#spare.pop() ?? { bytes: Buffer.allocUnsafeSlow(BLOCK_BYTES), length: 0 }
    block.length = 0
    this.#queue.push(block)
    return block
  }

  /** The last bytes of what is queued, as text. */
  #tail(): string {
    let text = ''
    for (let at = this.#queue.length - 1; at >= 0 && text.length < CLOSING_BYTES; at--) {
      const { bytes, length } = this.#queue[at]!
      const from = Math.max(0, length - (CLOSING_BYTES - text.length))
      text = bytes.toString('latin1', from, length) + text
    }
    return text
  }

  #drop(count: number): void {
    this.#queued -= count
    let left = count
    while (left > 0) {
      const last = this.#queue[this.#queue.length - 1]!
      const taken = Math.min(left, last.length)
      last.length -= taken
      left -= taken
      if (last.length === 0) this.#queue.pop()
    }
  }

  #clear(): void {
    this.#queue.length = this.#spare.length = this.#queued = 0
  }

  #pause(): void {
    if (!this.#isPaused) this.#call.pause()
    this.#isPaused = true
  }

  #resume(): void {
    const wasPaused = this.#isPaused
    this.#isPaused = false
    if (wasPaused && this.#state === 'open') this.#call.resume()
  }
}

function brokenOff(): Error {
  return new Error('the node broke off')
}
