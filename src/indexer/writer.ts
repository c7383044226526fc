// Converts deliveries into rows, batches them, and writes each batch to the sink.
// Thread: main of the writer process (workers/index-writer.ts).
//
//   take(delivery) -> rows/ -> batches --(time, rows or bytes)--> sink.write(batches, marks)
//        ^ answered when its rows are durable ------------------------------'
//
// Deliveries are written in order: a write that failed is retried before anything else.
import { setTimeout as sleep } from 'node:timers/promises'
import { assert } from '../base/assert.ts'
import { backoffMs } from '../base/backoff.ts'
import { Fault, messageOf } from '../base/errors.ts'
import type { IndexerSection } from './config.ts'
import type { Marks, RowSink, SinkEvents } from './engine.ts'
import type { Cut, Delivery } from './parcels.ts'
import { addDeliveryRows, RowBatches } from './rows/delivery-rows.ts'

/** A commit of DuckDB costs a few milliseconds, so one write covers a block of rows. */
const duckdbGather = { insertMs: 50, insertRows: 20_000 }
/** So many bytes are written at once: half of what the outbox sends before it waits. */
const bytesMax = 4 * 1024 * 1024
/** Of a failed write. */
const backoff = { firstMs: 50, lastMs: 5_000 }

/** Configuration of the sink. Sent over the pipe, because the URL may contain a password. */
export interface SinkConfig
  extends Pick<
    IndexerSection,
    'engine' | 'url' | 'clickhouse' | 'retentionDays' | 'retentionBytes'
  > {
  /** Folder of DuckDB's files. */
  readonly folder: string
  /** Names this server, or its cluster, in the writer lease of ClickHouse, for operators. */
  readonly holder: string
  /** Everything by default. */
  readonly role?: WriterRole
}

/**
 * What a writer writes: everything; the facts that only this gateway has, tips and usage; or slots
 * and events, during one term of the cluster's lease.
 */
export type WriterRole = 'all' | 'own facts' | WriterTerm

export interface WriterTerm {
  readonly term: number
  /** By `machineMs`: nothing is written after it. */
  readonly untilMs: number
}

/** Outcome of a delivery. `rejected`: retrying does not help. */
export type Taken = { readonly isWritten: true } | { readonly rejected: string }

/** Events sent to the server: each write, each failed attempt, and what the sink reports. */
export interface WriterEvents extends SinkEvents {
  wrote(write: { readonly rows: Readonly<Record<string, number>>; readonly ms: number }): void
}

type OpenSink = (
  config: SinkConfig,
  events: WriterEvents,
  untilMs: () => number,
) => Promise<RowSink>

interface Waiting {
  readonly sinceMs: number
  settle(taken: Taken): void
}

export class IndexWriter {
  readonly #open: OpenSink
  readonly #events: WriterEvents
  readonly #rows = new RowBatches()
  #sink: RowSink | null = null
  #gather = duckdbGather
  #waiting: Waiting[] = []
  #bytes = 0
  #marks: Marks = {}
  #timer: NodeJS.Timeout | null = null
  /** The running write; never rejects. */
  #writing: Promise<void> | null = null
  #cutting: Promise<unknown> | null = null
  /** The last slot of an earlier chain that a cut was asked for, and one that was cut. */
  #askedTo: number | null = null
  #cutTo: number | null = null
  /** The mark of the slots when the sink was opened: it goes back only by a cut. */
  #openedAt = 0
  /** Slots that the index had when they came again: their rows are not written twice. */
  readonly #indexed = new Set<number>()
  /** By `machineMs`: the end of the term, which is extended. */
  #untilMs = Number.POSITIVE_INFINITY
  #isStopping = false

  constructor(open: OpenSink, events: WriterEvents) {
    this.#open = open
    this.#events = events
  }

  /** Opens the sink, once, and returns its marks. */
  async open(config: SinkConfig): Promise<Marks> {
    this.#gather = config.engine === 'clickhouse' ? config.clickhouse : duckdbGather
    if (typeof config.role === 'object') this.extend(config.role.untilMs)
    this.#sink ??= await this.#open(config, this.#events, () => this.#untilMs)
    const marks = await this.#sink.marks()
    this.#openedAt = marks.slots ?? 0
    return marks
  }

  /** The term ends later. */
  extend(untilMs: number): void {
    this.#untilMs = untilMs
  }

  /** Resolves when the delivery's rows are durable, or can never be. */
  async take(delivery: Delivery): Promise<Taken> {
    const sink = this.#sink
    assert(sink !== null, 'the sink is open before rows come')
    // Deliveries that wait for a cut continue in their order.
    while (this.#cutting !== null) await this.#cutting
    const cuts = delivery.parcels.flatMap((parcel) => (parcel.feed === 'slots' && parcel.cut) || [])
    if (cuts.some(({ to }) => to !== this.#cutTo)) {
      this.#cutting = this.#cut(sink, cuts)
      await this.#cutting
      this.#cutting = null
    }
    try {
      addDeliveryRows(this.#withoutIndexed(delivery), this.#rows)
    } catch (error) {
      return { rejected: messageOf(error) }
    }
    for (const { bytes } of delivery.parcels) this.#bytes += bytes
    this.#marks = { ...this.#marks, ...this.#marksOf(delivery) }
    return new Promise((settle) => {
      this.#waiting.push({ sinceMs: performance.now(), settle })
      this.#schedule(sink)
    })
  }

  /** Writes all pending rows at once. */
  async flush(): Promise<void> {
    if (this.#sink !== null) await this.#drain(this.#sink)
  }

  /** Writes all pending rows, then closes the sink. */
  async stop(): Promise<void> {
    this.#isStopping = true
    await this.flush()
    await this.#sink?.stop()
  }

  /** Deletes the rows of a chain that restarted, from the first block that is another one now. */
  #cut(sink: RowSink, cuts: readonly Cut[]): Promise<unknown> {
    return this.#untilDone(async () => {
      // What waits to be written is of the earlier chain, too.
      if (cuts[0]!.to !== this.#askedTo) await this.#drain(sink)
      this.#askedTo = cuts[0]!.to
      for (const { from, to, blockhash } of cuts) {
        const known = await sink.blockhash(from)
        if (known === blockhash) this.#indexed.add(from)
        if (known === null || known === blockhash) continue
        // Earlier rows belong to the previous chain, or to other tables: they are written first.
        await this.#drain(sink)
        await sink.cut(from, to)
        this.#cutTo = to
        for (const slot of this.#indexed) if (slot >= from) this.#indexed.delete(slot)
        return
      }
    })
  }

  /** A block is written after its rows: the slots of blocks that the index has are complete. */
  #withoutIndexed(delivery: Delivery): Delivery {
    if (this.#indexed.size === 0) return delivery
    const parcels = delivery.parcels.filter(
      (parcel) => parcel.feed !== 'slots' || !this.#indexed.has(parcel.content.slot),
    )
    return { ...delivery, parcels }
  }

  #marksOf({ marks }: Delivery): Marks {
    if (marks.slots === undefined || this.#cutTo !== null) return marks
    return { ...marks, slots: Math.max(marks.slots, this.#openedAt) }
  }

  async #drain(sink: RowSink): Promise<void> {
    while (this.#writing !== null || this.#waiting.length > 0) {
      if (this.#writing === null) this.#flush(sink)
      await this.#writing
    }
  }

  #schedule(sink: RowSink): void {
    if (this.#writing !== null) return
    const oldest = this.#waiting[0]
    if (oldest === undefined) return
    const { insertMs, insertRows } = this.#gather
    const waitMs = oldest.sinceMs + insertMs - performance.now()
    const isFull = this.#rows.count >= insertRows || this.#bytes >= bytesMax
    if (isFull || waitMs <= 0) this.#flush(sink)
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
    this.#bytes = 0
    const beganMs = performance.now()
    // Marks without rows are not written alone: they are written with the next rows.
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

  /** Retries with exponential back-off until it succeeds or the error is not retryable. */
  async #untilDone(work: () => Promise<void>): Promise<Taken> {
    for (let failures = 1; ; failures++) {
      try {
        await work()
        return { isWritten: true }
      } catch (error) {
        const message = messageOf(error)
        this.#events.failed(message)
        const isRetryable = error instanceof Fault && error.retryable
        if (!isRetryable || this.#isStopping) return { rejected: message }
        await sleep(backoffMs(failures, backoff))
      }
    }
  }
}

const msPerDay = 86_400_000

/** Opens the configured sink. Engines are imported on demand: DuckDB's module is large. */
export async function openSink(
  config: SinkConfig,
  events: WriterEvents,
  untilMs = () => Number.POSITIVE_INFINITY,
): Promise<RowSink> {
  const { folder, url, retentionDays, retentionBytes, holder, role } = config
  if (config.engine === 'clickhouse') {
    const { openClickhouseSink } = await import('./clickhouse-server/sink.ts')
    const term = typeof role === 'object' ? { number: role.term, untilMs } : null
    const repairs = role !== 'own facts'
    return openClickhouseSink(url, { retentionDays, holder, events, term, repairs })
  }
  const { openDuckdbSink } = await import('./duckdb/sink.ts')
  return openDuckdbSink(folder, { retentionMs: retentionDays * msPerDay, retentionBytes })
}
