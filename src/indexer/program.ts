// The program that builds the index: reads the streams of a gateway, or of several, turns them into
// rows and writes them. It keeps its marks with the rows, so that after its death another one
// continues there. Thread: main of the writer process (workers/index-writer.ts).
//
//   feeds of the gateways ─► FeedReader ─► Intake (8 MiB) ─► IndexWriter ─► sink
//            ▲──────────── paused ───────────┘                    └─► reports to the parent
import { type Clock, systemClock } from '../base/clock.ts'
import type { GeyserTarget } from '../upstream/geyser/geyser-client.ts'
import type { Marks } from './engine.ts'
import { FeedReader, type GatewayChange } from './feed/feed-reader.ts'
import { Intake, type Sending } from './feed/intake.ts'
import type { ItemFeed } from './feed-items.ts'
import type { FeedCursors } from './parcels.ts'
import type { FeedName } from './tables.ts'
import { IndexWriter, type SinkConfig, type WriterEvents } from './writer.ts'

const reportEveryMs = 250
/** After something became durable. */
const reportSoonMs = 20
const drainMsMax = 2_500
const drainStepMs = 10

export interface ProgramConfig {
  readonly sink: SinkConfig
  readonly gateways: readonly GeyserTarget[]
  /** Where an earlier process was, and what it had made durable by then. */
  readonly cursors: FeedCursors
  /** Parcels that processes died of. */
  readonly skip: readonly string[]
  /** Parcels that are written at once; null in normal operation. */
  readonly careful: number | null
}

/** Since the last report, and as it is now. */
export interface ProgramReport {
  readonly lagMs: number
  readonly unackedBytes: number
  readonly freshness: DurableUpTo
  readonly cursors: FeedCursors
  readonly lost: Readonly<Partial<Record<FeedName, number>>>
  readonly reread: number
  /** Parcels are written one at a time. */
  readonly isCareful: boolean
  /** From an update to its durable rows, of each delivery. */
  readonly delaysMs: readonly number[]
}

/** Newest durable slot and block; when their updates happened, in milliseconds since 1970. */
export interface DurableUpTo {
  readonly slot: number | null
  readonly slotAtMs: number | null
  readonly block: number | null
  readonly blockAtMs: number | null
}

export interface ProgramEvents extends WriterEvents {
  report(report: ProgramReport): void
  /** This parcel is written next, alone; null: several are. */
  trying(name: string | null): Promise<void>
  dropped(delivery: { readonly reason: string; readonly bytes: number }): void
  gateway(change: GatewayChange): void
}

export class IndexProgram {
  readonly #events: ProgramEvents
  readonly #writer: IndexWriter
  readonly #clock: Clock
  #opening: Promise<Marks> | null = null
  #reader: FeedReader | null = null
  #intake: Intake | null = null
  #cursors: FeedCursors = {}
  #fresh: DurableUpTo = { slot: null, slotAtMs: null, block: null, blockAtMs: null }
  #lost: Partial<Record<FeedName, number>> = {}
  #delaysMs: number[] = []
  #rereadTold = 0
  #soon: NodeJS.Timeout | null = null
  #every: NodeJS.Timeout | null = null
  #isStopping = false

  constructor(
    openSink: ConstructorParameters<typeof IndexWriter>[0],
    events: ProgramEvents,
    clock = systemClock,
  ) {
    this.#events = events
    this.#clock = clock
    this.#writer = new IndexWriter(openSink, events)
  }

  /** Opens the sink and reads the streams from its marks on; may be repeated when it failed. */
  open(config: ProgramConfig): Promise<Marks> {
    this.#opening ??= this.#open(config).catch((error: unknown) => {
      this.#opening = null
      throw error
    })
    return this.#opening
  }

  async #open({ sink, gateways, cursors, skip, careful }: ProgramConfig): Promise<Marks> {
    const marks = await this.#writer.open(sink)
    if (this.#isStopping) return marks
    this.#fresh = { ...this.#fresh, slot: marks.slots ?? null }
    this.#cursors = cursors
    const lost = (feed: FeedName, count: number) => {
      // What is not written at the end is read again by the next process.
      if (!this.#isStopping) this.#lost[feed] = (this.#lost[feed] ?? 0) + count
    }
    const intake = new Intake({
      writer: this.#writer,
      pause: () => this.#reader?.pause(),
      resume: () => this.#reader?.resume(),
      lost,
      dropped: ({ cursors, bytes }, reason) => {
        if (this.#isStopping) return
        this.#cursors = { ...this.#cursors, ...cursors }
        this.#events.dropped({ reason, bytes })
      },
      durable: (sending) => this.#durable(sending),
      marksFacts: sink.engine === 'clickhouse',
      ...{ skip, careful, trying: (name) => this.#events.trying(name) },
      clock: this.#clock,
    })
    this.#intake = intake
    this.#reader = new FeedReader({
      gateways,
      marks,
      cursors,
      take: (parcel) => intake.add(parcel),
      lost,
      changed: (change) => this.#events.gateway(change),
      clock: this.#clock,
    })
    this.#every = setInterval(() => this.#report(intake), reportEveryMs)
    this.#report(intake)
    return marks
  }

  /** Resolves when what the gateway has by now is durable, or when that takes too long. */
  async drain(positions: Readonly<Record<ItemFeed, number>>): Promise<void> {
    const reader = this.#reader
    const intake = this.#intake
    if (reader === null || intake === null) return
    const endMs = performance.now() + drainMsMax
    const isDone = () => reader.hasRead(positions) && intake.lagMs() === 0
    while (!isDone() && performance.now() < endMs) {
      await new Promise((resolve) => setTimeout(resolve, drainStepMs))
      await this.#writer.flush()
    }
    this.#report(intake)
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    if (this.#every !== null) clearInterval(this.#every)
    if (this.#soon !== null) clearTimeout(this.#soon)
    this.#reader?.stop()
    this.#intake?.stop()
    await this.#writer.stop()
  }

  #durable({ delivery, cursors, sinceMs }: Sending): void {
    const nowMs = this.#clock.monotonicMs()
    const atMs = this.#clock.nowMs() - (nowMs - sinceMs)
    this.#cursors = { ...this.#cursors, ...cursors }
    this.#delaysMs.push(nowMs - sinceMs)
    // A slot that comes again is compared, and is no news.
    const { slots } = delivery.marks
    if (slots !== undefined && slots === this.#writer.marks.slots)
      this.#fresh = { ...this.#fresh, slot: slots, slotAtMs: atMs }
    const last = delivery.parcels.findLast(
      ({ feed, content }) => feed === 'events' && content.kind === 'ContentionData',
    )
    if (last?.feed === 'events' && last.content.facts !== null)
      this.#fresh = { ...this.#fresh, block: last.content.facts.blockNumber, blockAtMs: atMs }
    this.#soon ??= setTimeout(() => this.#report(this.#intake!), reportSoonMs)
  }

  #report(intake: Intake): void {
    if (this.#soon !== null) clearTimeout(this.#soon)
    this.#soon = null
    const reread = intake.reread - this.#rereadTold
    this.#rereadTold += reread
    this.#events.report({
      lagMs: intake.lagMs(),
      unackedBytes: intake.unackedBytes,
      freshness: this.#fresh,
      cursors: this.#cursors,
      lost: this.#lost,
      reread,
      isCareful: intake.isCareful,
      delaysMs: this.#delaysMs,
    })
    this.#lost = {}
    this.#delaysMs = []
  }
}
