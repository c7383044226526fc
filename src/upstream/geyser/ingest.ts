// Reads geyser streams in a worker: HTTP/2, gRPC and the table of each batch. Thread: geyser.
// The main thread connects, calls and subscribes by messages; batches go to it as memory that
// changes its owner, so nothing is copied. When it has not taken `inFlightBytesMax`, the stream is
// paused: HTTP/2's flow control then holds the node back, and nothing is lost.
import { systemClock } from '../../base/clock.ts'
import type { Outcome } from '../../base/errors.ts'
import { batchOf, type GeyserBatch } from '../../chain/solana/geyser-batch.ts'
import {
  GeyserClient,
  type GeyserEnd,
  type GeyserStream,
  type GeyserTarget,
  lost,
  notAnswered,
} from './geyser-client.ts'

/** Bytes of batches that the main thread has not taken: about 20 ms of its time. */
export const inFlightBytesMax = 16 * 1024 * 1024
const pausedPollMs = 1

/** From the main thread; `client` and `call` are numbers that it gives. */
export type IngestRequest =
  | { readonly kind: 'connect'; readonly client: number; readonly target: GeyserTarget }
  | { readonly kind: 'close'; readonly client: number }
  | ({ readonly kind: 'call'; readonly timeoutMs: number } & IngestCall)
  | ({ readonly kind: 'subscribe' } & Omit<IngestCall, 'method'>)
  | { readonly kind: 'send'; readonly call: number; readonly message: Uint8Array }
  | { readonly kind: 'cancel'; readonly call: number }

interface IngestCall {
  readonly client: number
  readonly call: number
  readonly method: string
  readonly request: Uint8Array
}

/** To the main thread. */
export type IngestReport =
  | { readonly kind: 'answer'; readonly call: number; readonly answer: Outcome<Uint8Array> }
  | { readonly kind: 'opened'; readonly call: number }
  | ({ readonly kind: 'batch'; readonly call: number } & IngestBatch)
  | { readonly kind: 'ended'; readonly call: number; readonly end: GeyserEnd }

/** A GeyserBatch whose memory changes its owner: the first `length` bytes. */
export interface IngestBatch {
  readonly buffer: ArrayBuffer
  readonly length: number
  readonly messageBytes: number
  readonly table: GeyserBatch['table']
}

export type PostReport = (report: IngestReport, transfer?: readonly ArrayBuffer[]) => void

export class Ingest {
  readonly #post: PostReport
  /** Bytes of batches that the main thread has taken, modulo 2^32; it alone writes this word. */
  readonly #taken: Int32Array
  readonly #clients = new Map<number, GeyserClient>()
  readonly #streams = new Map<number, GeyserStream>()
  readonly #paused = new Set<GeyserStream>()
  #sent: number

  constructor(taken: SharedArrayBuffer, post: PostReport) {
    this.#post = post
    this.#taken = new Int32Array(taken)
    this.#sent = this.#taken[0]!
  }

  take(request: IngestRequest): void {
    switch (request.kind) {
      case 'connect':
        this.#clients.set(request.client, new GeyserClient(request.target, systemClock))
        return
      case 'close':
        this.#clients.get(request.client)?.close()
        this.#clients.delete(request.client)
        return
      case 'call':
        void this.#call(request)
        return
      case 'subscribe':
        this.#subscribe(request)
        return
      case 'send':
        this.#streams.get(request.call)?.send(request.message)
        return
      case 'cancel':
        this.#streams.get(request.call)?.cancel()
        this.#streams.delete(request.call)
    }
  }

  async #call({ client, call, method, request, timeoutMs }: RequestOf<'call'>): Promise<void> {
    const answer = await this.#clients.get(client)?.call(method, request, timeoutMs)
    this.#post({ kind: 'answer', call, answer: answer ?? notAnswered(lost) })
  }

  #subscribe({ client, call, request }: RequestOf<'subscribe'>): void {
    const connection = this.#clients.get(client)
    if (connection === undefined) {
      this.#post({ kind: 'ended', call, end: lost })
      return
    }
    const stream = connection.subscribe(request, {
      opened: () => this.#post({ kind: 'opened', call }),
      messages: (bytes, offsets) => {
        const { table, messageBytes } = batchOf(bytes, offsets, systemClock.nowMs())
        // Reason for the cast: the client's batches are memory of their own.
        const buffer = bytes.buffer as ArrayBuffer
        const { length } = bytes
        this.#sent = (this.#sent + length) | 0
        const batch = { buffer, length, messageBytes, table }
        this.#post({ kind: 'batch', call, ...batch }, [buffer, table.buffer])
        if (this.#inFlightBytes() > inFlightBytesMax) this.#pause(stream)
      },
      ended: (end) => {
        this.#streams.delete(call)
        this.#post({ kind: 'ended', call, end })
      },
    })
    this.#streams.set(call, stream)
  }

  #pause(stream: GeyserStream): void {
    // A batch that was read before the pause may follow it.
    if (this.#paused.has(stream)) return
    this.#paused.add(stream)
    stream.pause()
    const timer = setInterval(() => {
      if (this.#inFlightBytes() > inFlightBytesMax / 2) return
      clearInterval(timer)
      this.#paused.delete(stream)
      stream.resume()
    }, pausedPollMs)
  }

  #inFlightBytes(): number {
    return (this.#sent - Atomics.load(this.#taken, 0)) | 0
  }
}

type RequestOf<K extends IngestRequest['kind']> = Extract<IngestRequest, { readonly kind: K }>
