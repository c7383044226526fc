// Converts deliveries into rows, batches them, and writes each batch to the sink.
// Thread: main of the writer process (workers/index-writer.ts).
//
//   take(delivery) -> rows/ -> batches --(time, rows or bytes)--> sink.write(batches, marks)
//        ^ answered when its rows are durable ------------------------------'
//
// Deliveries are written in order: a write that failed is retried before anything else. When the
// sink rejects a write for good, each of its deliveries is written alone: one bad delivery must
// not take others with it.
import { setTimeout as sleep } from 'node:timers/promises'
import { backoffMs } from '../base/clock.ts'
import { assert, Fault, messageOf } from '../base/errors.ts'
import type { IngestSection } from './config.ts'
import type { Cut, Delivery, Indexed, Marks, RowSink, SinkEvents } from './engine.ts'
import { addDeliveryRows, RowBatches } from './rows/delivery-rows.ts'

/** A commit of DuckDB costs a few milliseconds, so one write covers a block of rows. */
const duckdbGather = { insertMs: 50, insertRows: 20_000 }
/** So many bytes are written at once: half of what is read before the streams are paused. */
const bytesMax = 4 * 1024 * 1024
/** Slots whose blocks are looked up at once. */
const comparedSlots = 256
/** Of a failed write. */
const backoff = { firstMs: 50, lastMs: 5_000 }

/** Configuration of the sink. Sent over the pipe, because the URL may contain a password. */
export interface SinkConfig extends IngestSection {
  /** Folder of DuckDB's files. */
  readonly folder: string
  /** Names this program in the writer lease of ClickHouse, for operators. */
  readonly holder: string
}

/** Outcome of a delivery. `rejected`: retrying does not help. */
export type Taken = { readonly isWritten: true } | { readonly rejected: string }

/** Events sent to the server: each write, each failed attempt, and what the sink reports. */
export interface WriterEvents extends SinkEvents {
  wrote(write: { readonly rows: Readonly<Record<string, number>>; readonly ms: number }): void
}

type OpenSink = (config: SinkConfig, events: WriterEvents) => Promise<RowSink>

interface Waiting {
  readonly delivery: Delivery
  readonly sinceMs: number
  settle(taken: Taken): void
}

interface Known {
  readonly indexed: Indexed
  readonly upTo: number
  readonly hashes: ReadonlyMap<number, string>
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
  #comparing: Promise<Taken> | null = null
  /** Blocks that the index has of what the last stream may repeat, so far as was looked. */
  #known: Known | null = null
  /** The mark of the slots: it goes back only by a cut. */
  #slotMark = 0
  #durable: Marks = {}
  /** Slots that the index had when they came again: their rows are not written twice. */
  readonly #indexed = new Set<number>()
  #isStopping = false

  constructor(open: OpenSink, events: WriterEvents) {
    this.#open = open
    this.#events = events
  }

  /** Opens the sink, once, and returns its marks. */
  async open(config: SinkConfig): Promise<Marks> {
    this.#gather = config.engine === 'clickhouse' ? config.clickhouse : duckdbGather
    this.#sink ??= await this.#open(config, this.#events)
    const marks = await this.#sink.marks()
    this.#slotMark = marks.slots ?? 0
    this.#durable = marks
    return marks
  }

  /** Marks of everything that is durable. */
  get marks(): Marks {
    return this.#durable
  }

  /** Resolves when the delivery's rows are durable, or can never be. */
  async take(delivery: Delivery): Promise<Taken> {
    const sink = this.#sink
    assert(sink !== null, 'the sink is open before rows come')
    // Deliveries that wait for a comparison continue in their order.
    while (this.#comparing !== null) await this.#comparing
    const cuts = delivery.parcels.flatMap((parcel) => (parcel.feed === 'slots' && parcel.cut) || [])
    if (cuts.length > 0) {
      this.#comparing = this.#compare(sink, cuts)
      const compared = await this.#comparing
      this.#comparing = null
      if ('rejected' in compared) return compared
    }
    const fresh = this.#withoutIndexed(delivery)
    try {
      addDeliveryRows(fresh, this.#rows)
    } catch (error) {
      return { rejected: messageOf(error) }
    }
    for (const { bytes } of delivery.parcels) this.#bytes += bytes
    const marks = this.#marksOf(delivery)
    this.#marks = { ...this.#marks, ...marks }
    return new Promise((settle) => {
      this.#waiting.push({ delivery: { ...fresh, marks }, sinceMs: performance.now(), settle })
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

  /**
   * Deletes the rows of a chain that restarted, from the first block that is another one now; or
   * from one on that lacks transactions, which came late. Its rows cannot be added to: those of
   * another node have other write versions. One cut, however many such blocks follow.
   */
  #compare(sink: RowSink, cuts: readonly Cut[]): Promise<Taken> {
    return this.#untilDone(async () => {
      for (const { from, blockhash, indexed } of cuts) {
        const known = (await this.#blocksFrom(sink, from, indexed)).get(from)
        if (known === blockhash) this.#indexed.add(from)
        if (known === undefined || known === blockhash) continue
        // Earlier rows belong to the previous chain, or to other tables: they are written first.
        await this.#drain(sink)
        await sink.cut(from, indexed.to)
        this.#known = { indexed, upTo: indexed.to, hashes: new Map() }
        this.#slotMark = from - 1
        this.#marks = { ...this.#marks, slots: this.#slotMark }
        this.#durable = { ...this.#durable, slots: this.#slotMark }
        for (const slot of this.#indexed) if (slot >= from) this.#indexed.delete(slot)
      }
    })
  }

  /** What the index has from this slot on; one question for many slots. */
  async #blocksFrom(sink: RowSink, from: number, indexed: Indexed): Promise<Known['hashes']> {
    if (this.#known?.indexed === indexed && from <= this.#known.upTo) return this.#known.hashes
    // What waits to be written is of the earlier chain, too.
    await this.#drain(sink)
    const upTo = Math.min(indexed.to, from + comparedSlots - 1)
    this.#known = { indexed, upTo, hashes: await sink.blockhashes(from, upTo) }
    return this.#known.hashes
  }

  /**
   * A block is written after its rows: the slots of blocks with all transactions are complete. What
   * follows a block is late content, which may be new.
   */
  #withoutIndexed(delivery: Delivery): Delivery {
    if (this.#indexed.size === 0) return delivery
    const parcels = delivery.parcels.filter((parcel) => {
      if (parcel.feed !== 'slots') return true
      const { slot, block } = parcel.content
      const isIndexed = this.#indexed.has(slot)
      if (block !== null) this.#indexed.delete(slot)
      return !isIndexed
    })
    return { ...delivery, parcels }
  }

  #marksOf({ marks }: Delivery): Marks {
    if (marks.slots === undefined) return marks
    this.#slotMark = Math.max(marks.slots, this.#slotMark)
    return { ...marks, slots: this.#slotMark }
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
    const marks = newsIn(this.#marks, this.#durable)
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
      this.#durable = { ...this.#durable, ...marks }
      const rows = Object.fromEntries(batches.map(({ table, count }) => [table, count]))
      this.#events.wrote({ rows, ms: performance.now() - beganMs })
    }
    const isShared = 'rejected' in taken && waiting.length > 1 && !this.#isStopping
    for (const one of waiting)
      one.settle(isShared ? await this.#writeAlone(sink, one.delivery) : taken)
  }

  async #writeAlone(sink: RowSink, delivery: Delivery): Promise<Taken> {
    const rows = new RowBatches()
    addDeliveryRows(delivery, rows)
    const batches = rows.take()
    const taken = await this.#untilDone(async () => {
      if (batches.length > 0) await sink.write(batches, delivery.marks)
    })
    if ('isWritten' in taken) this.#durable = { ...this.#durable, ...delivery.marks }
    return taken
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

/** The marks that are not durable yet: those of runs that ended stay as they are. */
function newsIn(marks: Marks, durable: Marks): Marks {
  const was: Readonly<Record<string, number>> = durable
  return Object.fromEntries(Object.entries(marks).filter(([name, mark]) => was[name] !== mark))
}

const msPerDay = 86_400_000

/** Opens the configured sink. Engines are imported on demand: DuckDB's module is large. */
export async function openSink(config: SinkConfig, events: WriterEvents): Promise<RowSink> {
  const { folder, url, retentionDays, retentionBytes, holder } = config
  if (config.engine === 'clickhouse') {
    const { openClickhouseSink } = await import('./clickhouse-server/sink.ts')
    return openClickhouseSink(url, { retentionDays, holder, events })
  }
  const { openDuckdbSink } = await import('./duckdb/sink.ts')
  return openDuckdbSink(folder, { retentionMs: retentionDays * msPerDay, retentionBytes })
}
