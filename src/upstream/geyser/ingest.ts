// The worker that reads the geyser streams of one set, seen from the main thread: connections
// whose calls and streams run over there.
//
//   connect, call, subscribe ──► worker: HTTP/2, gRPC, table of each batch ──► batch ──► listener
//
// A worker that dies ends its calls and streams like a lost connection, and is started again.
import { type Clock, systemClock } from '../../base/clock.ts'
import { type Fault, messageOf, type Outcome } from '../../base/errors.ts'
import type { Log } from '../../base/telemetry/log.ts'
import { DedicatedWorker } from '../../base/threads/supervisor.ts'
import { batchOf, type GeyserBatch } from '../../chain/solana/geyser-batch.ts'
import {
  GeyserClient,
  type GeyserEnd,
  type GeyserStream,
  type GeyserTarget,
  lost,
  notAnswered,
} from './geyser-client.ts'

export interface BatchListener {
  /** The node accepted the call; an error status may still follow. */
  opened(): void
  /** The listener may keep the bytes. */
  batch(batch: GeyserBatch): void
  /** Called last. */
  ended(end: GeyserEnd): void
}

export interface BatchStream {
  send(message: Uint8Array): void
  cancel(): void
}

/** A connection to a node; it connects at once, and calls wait until it is connected. */
export interface GeyserConnection {
  /** A unary call. Refusals: `unavailable`, with the GeyserEnd as data. Never rejects. */
  call(method: string, request: Uint8Array, timeoutMs: number): Promise<Outcome<Uint8Array>>
  subscribe(request: Uint8Array, listener: BatchListener): BatchStream
  /** Ends all calls and streams. */
  close(): void
}

interface IngestDeps {
  readonly clock: Clock
  readonly log: Log
  /** The worker died too often to be started again. */
  onDown(fault: Fault): void
}

type Take = (report: IngestReport) => void

export class IngestWorker {
  readonly #deps: IngestDeps
  readonly #taken = new Int32Array(new SharedArrayBuffer(4))
  readonly #calls = new Map<number, Take>()
  #worker: Promise<DedicatedWorker> | null = null
  #running: DedicatedWorker | null = null
  #numbers = 0
  #isStopped = false

  constructor(deps: IngestDeps) {
    this.#deps = deps
  }

  /** Starts the worker first, where none runs; null while it cannot be started. */
  async connect(target: GeyserTarget): Promise<GeyserConnection | null> {
    try {
      this.#worker ??= this.#start()
      this.#running = await this.#worker
    } catch (error) {
      this.#worker = null
      this.#deps.log.warn('geyser worker does not start', { reason: messageOf(error) })
      return null
    }
    const client = ++this.#numbers
    if (this.#isStopped || !this.#post({ kind: 'connect', client, target })) return null
    return {
      call: (method, request, timeoutMs) => this.#call({ client, method, request, timeoutMs }),
      subscribe: (request, listener) => this.#subscribe(client, request, listener),
      close: () => void this.#post({ kind: 'close', client }),
    }
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    const worker = await this.#worker?.catch(() => null)
    await worker?.stop()
  }

  #start(): Promise<DedicatedWorker> {
    return DedicatedWorker.start(
      {
        name: 'geyser',
        entry: 'geyser',
        data: { taken: this.#taken.buffer },
        onMessage: (message) => {
          // Reason for the cast: the worker posts nothing else.
          const report = message as IngestReport
          this.#calls.get(report.call)?.(report)
          // Also without a listener: the worker counts what it has sent.
          if (report.kind === 'batch') Atomics.add(this.#taken, 0, report.length)
        },
        onExit: () => {
          for (const [call, take] of [...this.#calls]) take({ kind: 'ended', call, end: lost })
        },
      },
      this.#deps,
    )
  }

  #call(request: Omit<RequestOf<'call'>, 'kind' | 'call'>): Promise<Outcome<Uint8Array>> {
    return new Promise((resolve) => {
      const call = this.#open((report) => {
        this.#calls.delete(call)
        if (report.kind === 'answer') resolve(report.answer)
        else if (report.kind === 'ended') resolve(notAnswered(report.end))
      })
      this.#ask(call, { kind: 'call', call, ...request })
    })
  }

  #subscribe(client: number, request: Uint8Array, listener: BatchListener): BatchStream {
    const call = this.#open((report) => {
      if (report.kind === 'batch') {
        const { buffer, length, messageBytes, table } = report
        listener.batch({ bytes: Buffer.from(buffer, 0, length), messageBytes, table })
      } else if (report.kind === 'opened') listener.opened()
      else if (report.kind === 'ended') {
        this.#calls.delete(call)
        listener.ended(report.end)
      }
    })
    this.#ask(call, { kind: 'subscribe', client, call, request })
    return {
      send: (message) => void this.#post({ kind: 'send', call, message }),
      cancel: () => {
        this.#calls.delete(call)
        this.#post({ kind: 'cancel', call })
      },
    }
  }

  #open(take: Take): number {
    const call = ++this.#numbers
    this.#calls.set(call, take)
    return call
  }

  #ask(call: number, request: IngestRequest): void {
    if (this.#post(request)) return
    setImmediate(() => this.#calls.get(call)?.({ kind: 'ended', call, end: lost }))
  }

  #post(request: IngestRequest): boolean {
    return this.#running?.post(request) ?? false
  }
}

// Reads geyser streams in a worker: HTTP/2, gRPC and the table of each batch. Thread: geyser.
// The main thread connects, calls and subscribes by messages; batches go to it as memory that
// changes its owner, so nothing is copied. When it has not taken `inFlightBytesMax`, the stream is
// paused: HTTP/2's flow control then holds the node back, and nothing is lost.

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
interface IngestBatch extends Omit<GeyserBatch, 'bytes'> {
  readonly buffer: ArrayBuffer
  readonly length: number
}

type PostReport = (report: IngestReport, transfer?: readonly ArrayBuffer[]) => void

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
