// The worker that reads the geyser streams of one set, seen from the main thread: connections
// whose calls and streams run over there.
//
//   connect, call, subscribe ──► worker: HTTP/2, gRPC, table of each batch ──► batch ──► listener
//
// A worker that dies ends its calls and streams like a lost connection, and is started again.
import type { Clock } from '../../base/clock.ts'
import { type Fault, messageOf, type Outcome } from '../../base/errors.ts'
import type { Log } from '../../base/telemetry/log.ts'
import { DedicatedWorker } from '../../base/threads/dedicated.ts'
import type { GeyserBatch } from '../../chain/solana/geyser-batch.ts'
import { type GeyserEnd, type GeyserTarget, lost, notAnswered } from './geyser-client.ts'
import type { IngestReport, IngestRequest } from './ingest.ts'

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

export interface IngestDeps {
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
        // Reason for the cast: the worker posts nothing else.
        onMessage: (message) => this.#take(message as IngestReport),
        onExit: () => this.#lose(),
      },
      this.#deps,
    )
  }

  #call(request: {
    readonly client: number
    readonly method: string
    readonly request: Uint8Array
    readonly timeoutMs: number
  }): Promise<Outcome<Uint8Array>> {
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

  #take(report: IngestReport): void {
    this.#calls.get(report.call)?.(report)
    // Also without a listener: the worker counts what it has sent.
    if (report.kind === 'batch') Atomics.add(this.#taken, 0, report.length)
  }

  #lose(): void {
    for (const [call, take] of [...this.#calls]) take({ kind: 'ended', call, end: lost })
  }
}
