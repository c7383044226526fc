// The writer: makes rows of deliveries, gathers them, and gives them to the sink as one.
// Thread: main of the writer process (workers/index-writer.ts); called over the pipe by feed/.
//
//   take(delivery) -> rows/ -> batches --(lingerMs or rowsMax)--> sink.write(batches, marks)
//        ^ answered when its rows are durable ------------------------------'
//
// Deliveries are written in their order: what fails for now is tried again before anything else.
import { assert } from '../../base/assert.ts'
import { Fault, messageOf } from '../../base/errors.ts'
import type { Marks, RowSink } from './engine.ts'
import type { Delivery } from './parcels.ts'
import { RowBatches } from './rows/batches.ts'
import { addDeliveryRows } from './rows/delivery-rows.ts'

/** Rows that are written without waiting for more. */
export const rowsMax = 20_000
/** Between tries of a write that failed for now: the first, doubled up to the last. */
const retryMs = { first: 50, last: 5_000 } as const

/** Where rows go. It comes over the pipe: an address may hold a password. */
export interface SinkPlace {
  readonly engine: 'duckdb' | 'clickhouse'
  /** Of DuckDB's files. */
  readonly folder: string
  /** Of the ClickHouse server. */
  readonly url: string
  readonly retentionDays: number
  readonly retentionBytes: number
  /** The server that writes, for the operator of another one: host, process, run. */
  readonly holder: string
}

/** What became of a delivery. `rejected`: the sink will never take it as it is. */
export type Taken = { readonly isWritten: true } | { readonly rejected: string }

/** What the writer tells unasked: each write, and each try that failed. */
export interface WriterEvents {
  wrote(write: { readonly rows: Readonly<Record<string, number>>; readonly ms: number }): void
  trouble(message: string): void
}

interface Waiting {
  readonly sinceMs: number
  settle(taken: Taken): void
}

export class IndexWriter {
  readonly #open: (place: SinkPlace) => Promise<RowSink>
  readonly #events: WriterEvents
  readonly #rows = new RowBatches()
  #sink: RowSink | null = null
  #waiting: Waiting[] = []
  #marks: Marks = {}
  #timer: NodeJS.Timeout | null = null
  /** The write under way; never rejects. */
  #writing: Promise<void> | null = null
  #cutting: Promise<void> | null = null
  #isStopping = false

  constructor(open: (place: SinkPlace) => Promise<RowSink>, events: WriterEvents) {
    this.#open = open
    this.#events = events
  }

  /** Opens the sink, once, and tells how far it is. */
  async open(place: SinkPlace): Promise<Marks> {
    this.#sink ??= await this.#open(place)
    return this.#sink.marks()
  }

  /** Resolves when the delivery's rows are durable, or can never be. */
  async take(delivery: Delivery): Promise<Taken> {
    const sink = this.#sink
    assert(sink !== null, 'the sink is open before rows come')
    // Those who wait for a cut go on in their order.
    while (this.#cutting !== null) await this.#cutting
    if (delivery.cut !== null) {
      this.#cutting = this.#cut(sink, delivery.cut)
      await this.#cutting
      this.#cutting = null
    }
    try {
      addDeliveryRows(delivery, this.#rows)
    } catch (error) {
      return { rejected: messageOf(error) }
    }
    this.#marks = { ...this.#marks, ...delivery.marks }
    return new Promise((settle) => {
      this.#waiting.push({ sinceMs: performance.now(), settle })
      this.#schedule(sink)
    })
  }

  /** Writes what is there, then closes the sink. */
  async stop(): Promise<void> {
    this.#isStopping = true
    while (this.#writing !== null || this.#waiting.length > 0) {
      if (this.#writing === null && this.#sink !== null) this.#flush(this.#sink)
      await this.#writing
    }
    await this.#sink?.stop()
  }

  async #cut(sink: RowSink, { from, to }: { from: number; to: number }): Promise<void> {
    // What came before it belongs to the chain that is gone, or to other tables.
    while (this.#writing !== null || this.#waiting.length > 0) {
      if (this.#writing === null) this.#flush(sink)
      await this.#writing
    }
    await this.#untilDone(() => sink.cut(from, to))
  }

  #schedule(sink: RowSink): void {
    if (this.#writing !== null) return
    const oldest = this.#waiting[0]
    if (oldest === undefined) return
    const waitMs = oldest.sinceMs + sink.lingerMs - performance.now()
    if (this.#rows.count >= rowsMax || waitMs <= 0) this.#flush(sink)
    else this.#timer ??= setTimeout(() => this.#flush(sink), waitMs)
  }

  #flush(sink: RowSink): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    if (this.#writing !== null) return
    this.#writing = this.#write(sink).finally(() => {
      this.#writing = null
      this.#schedule(sink)
    })
  }

  async #write(sink: RowSink): Promise<void> {
    const waiting = this.#waiting
    const marks = this.#marks
    const batches = this.#rows.take()
    this.#waiting = []
    const beganMs = performance.now()
    // Marks alone need no write of their own: they go with the next rows.
    const hasRows = batches.length > 0
    const taken = await this.#untilDone(async () => {
      if (hasRows) await sink.write(batches, marks)
    })
    if ('isWritten' in taken && hasRows) {
      const rows = Object.fromEntries(batches.map(({ table, count }) => [table, count]))
      this.#events.wrote({ rows, ms: performance.now() - beganMs })
    }
    for (const one of waiting) one.settle(taken)
  }

  /** Tries until it is done, or until the sink says that trying is of no use. */
  async #untilDone(work: () => Promise<void>): Promise<Taken> {
    for (let waitMs: number = retryMs.first; ; waitMs = Math.min(retryMs.last, waitMs * 2)) {
      try {
        await work()
        return { isWritten: true }
      } catch (error) {
        const message = messageOf(error)
        this.#events.trouble(message)
        const isWorthTrying = error instanceof Fault && error.retryable
        if (!isWorthTrying || this.#isStopping) return { rejected: message }
        await new Promise((resolve) => setTimeout(resolve, waitMs))
      }
    }
  }
}
