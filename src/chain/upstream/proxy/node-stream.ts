// A long result on its way from a node, at the reader's pace. Thread: main.
// Made by attempt.ts once an answer is too long to hold. The node's connection is paused while
// enough is queued here; the last bytes are held back until the answer's end has shown which of
// them belong to the result. Whatever goes wrong on the way rejects: half a result must never
// look like a whole one.
import { CLOSING_BYTES, closingOf, isPair } from '../../../jsonrpc/envelope.ts'
import type { ByteStream } from '../../../jsonrpc/message-stream.ts'
import type { NodeCall } from '../node-call.ts'
import type { ProxyTally } from './meters.ts'

/** Beyond this the node's connection is paused. */
const QUEUED_BYTES_MAX = 131_072

interface Reader {
  resolve(bytes: Uint8Array | null): void
  reject(error: Error): void
}

export class NodeStream implements ByteStream {
  readonly #call: NodeCall
  readonly #tally: ProxyTally
  readonly #first: number
  readonly #queue: Buffer[] = []
  #queued = 0
  #reader: Reader | null = null
  #state: 'open' | 'ended' | 'broken' | 'over' = 'open'
  #isPaused = false

  /** `first` begins with the result's first byte. */
  constructor(call: NodeCall, first: Buffer, tally: ProxyTally) {
    this.#call = call
    this.#tally = tally
    this.#first = first[0] ?? 0
    tally.streams++
    this.push(first)
  }

  read(): Promise<Uint8Array | null> {
    const ready = this.#take()
    if (ready !== undefined) return Promise.resolve(ready)
    if (this.#state === 'broken') return Promise.reject(new Error('the node broke off'))
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
    this.#queue.length = this.#queued = 0
    this.#reader?.resolve(null)
    this.#reader = null
  }

  /** More bytes from the node. */
  push(chunk: Buffer): void {
    if (this.#state !== 'open') return
    this.#queue.push(chunk)
    this.#queued += chunk.length
    const ready = this.#reader === null ? undefined : this.#take()
    if (ready !== undefined) this.#give(ready)
    else if (this.#reader === null && this.#queued > QUEUED_BYTES_MAX) this.#pause()
  }

  /** The node's answer is whole; it may still turn out to be none. */
  end(): void {
    if (this.#state !== 'open') return
    const rest = Buffer.concat(this.#queue)
    const from = Math.max(0, rest.length - CLOSING_BYTES)
    const closing = closingOf(rest.toString('latin1', from))
    const end = from + closing
    if (closing === -1 || !isPair(this.#first, rest[end - 1] ?? 0)) {
      this.fail()
      return
    }
    this.#queue.length = this.#queued = 0
    if (end > 0) {
      this.#queue.push(rest.subarray(0, end))
      this.#queued = end
    }
    this.#state = 'ended'
    const ready = this.#reader === null ? undefined : this.#take()
    if (ready !== undefined) this.#give(ready)
  }

  /** The node will send no more, and this was not all. */
  fail(): void {
    if (this.#state !== 'open') return
    this.#tally.streamsBroken++
    this.#state = 'broken'
    this.#queue.length = this.#queued = 0
    this.#reader?.reject(new Error('the node broke off'))
    this.#reader = null
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
    return next
  }

  #give(bytes: Uint8Array | null): void {
    const reader = this.#reader
    this.#reader = null
    reader?.resolve(bytes)
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
