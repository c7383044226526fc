// The program that builds the index: reads the streams of a gateway, or of several, turns them into
// rows and writes them. It keeps its marks with the rows, so that after its death another one
// continues there. Thread: main of the writer process (workers/index-writer.ts).
//
//   feeds of the gateways ─► FeedReader ─► Intake (8 MiB) ─► IndexWriter ─► sink
//            ▲──────────── paused ───────────┘                    └─► reports to the parent
import { type Clock, systemClock } from '../base/clock.ts'
import type { GeyserTarget } from '../upstream/geyser/geyser-client.ts'
import { unackedBytesMax } from './config.ts'
import type { Delivery, FeedCursors, Marks, Parcel } from './engine.ts'
import { FeedReader, type GatewayChange } from './feed/feed-reader.ts'
import type { FactMark, ItemFeed } from './feed-items.ts'
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
interface DurableUpTo {
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

// Gathers the parcels of the feeds into deliveries for the writer, and knows what is durable.
//
//   add(parcel) ─► delivery (256 KiB, or 5 ms) ─► IndexWriter.take ─► durable: cursors, freshness
//   8 MiB not durable ─► the feeds are paused ─► half of it durable ─► resumed
//
// After writer processes that died without writing anything, small groups of parcels are written
// one at a time. Where more die, the groups are smaller: of one parcel at last, which is named
// before it is tried. The parent has those skipped that several died of.

/** Size of one delivery. A single parcel may be larger. */
const deliveryBytesMax = 256 * 1024
const gatherMs = 5
/** Groups that are tried one at a time; slots that come again do not count. */
const carefulGroups = 256

export interface IntakeDeps {
  readonly writer: Pick<IndexWriter, 'take' | 'flush'>
  pause(): void
  resume(): void
  lost(feed: FeedName, count: number): void
  /** A delivery was rejected for good. */
  dropped(sending: Sending, reason: string): void
  durable(sending: Sending): void
  /** The index keeps where it is in the facts of each gateway: another program may go on there. */
  readonly marksFacts: boolean
  /** Names of parcels that are not written. */
  readonly skip: readonly string[]
  /** Parcels of a group that is tried alone; null in normal operation. */
  readonly careful: number | null
  /** This parcel is written next, alone; null: several are. Resolves when the parent gets it,
   *  whatever happens to this process. */
  trying(name: string | null): Promise<void>
  readonly clock: Clock
}

export interface Sending {
  readonly delivery: Delivery
  /** Not in the delivery: writers ended over them. */
  readonly skipped: readonly Parcel[]
  readonly cursors: FeedCursors
  readonly bytes: number
  readonly sinceMs: number
}

export class Intake {
  readonly #deps: IntakeDeps
  #gathered: Parcel[] = []
  #gatheredBytes = 0
  readonly #sending = new Set<Sending>()
  unackedBytes = 0
  #timer: NodeJS.Timeout | null = null
  #isPaused = false
  /** Groups that are still to be tried one at a time, those that wait, and the last of them. */
  #careful: number
  #tries = 0
  #trying: Promise<void> = Promise.resolve()
  /** Slots that the index had, and that came again; and the last of them. */
  reread = 0
  #again: number | null = null

  constructor(deps: IntakeDeps) {
    this.#deps = deps
    this.#careful = deps.careful === null ? 0 : carefulGroups
  }

  add(parcel: Parcel): void {
    if (parcel.feed === 'slots' && parcel.cut !== null) {
      this.reread++
      this.#again = parcel.content.slot
    }
    this.unackedBytes += parcel.bytes
    this.#gathered.push(parcel)
    this.#gatheredBytes += parcel.bytes
    const isGroup = this.#careful > 0 && this.#gathered.length >= this.#deps.careful!
    if (this.#gatheredBytes >= deliveryBytesMax || isGroup) this.#send()
    else this.#timer ??= setTimeout(() => this.#send(), gatherMs)
    if (this.unackedBytes < unackedBytesMax || this.#isPaused) return
    this.#isPaused = true
    this.#deps.pause()
  }

  get isCareful(): boolean {
    return this.#careful > 0 || this.#tries > 0
  }

  /** Age of the oldest update that is not yet durable; 0 when all are. */
  lagMs(): number {
    let oldest = Number.POSITIVE_INFINITY
    for (const { sinceMs } of this.#gathered) oldest = Math.min(oldest, sinceMs)
    for (const { sinceMs } of this.#sending) oldest = Math.min(oldest, sinceMs)
    return Math.max(0, this.#deps.clock.monotonicMs() - oldest)
  }

  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
  }

  #send(): void {
    this.stop()
    this.#timer = null
    const parcels = this.#gathered
    const sending = this.#sendingOf(parcels)
    this.#gathered = []
    this.#gatheredBytes = 0
    this.#sending.add(sending)
    // In order: what is taken overtakes nothing that is still to be tried.
    if (!this.isCareful) {
      void this.#take(sending)
      return
    }
    const isAgain = parcels.every(
      ({ feed, content }) => feed === 'slots' && content.slot === this.#again,
    )
    if (!isAgain) this.#careful = Math.max(0, this.#careful - 1)
    this.#tries++
    this.#trying = this.#trying.then(() => this.#try(sending)).then(() => void this.#tries--)
  }

  async #take(sending: Sending): Promise<void> {
    const { writer, durable, dropped } = this.#deps
    const taken = await writer.take(sending.delivery)
    this.#forget(sending)
    const { delivery, skipped } = sending
    const isWritten = 'isWritten' in taken
    this.#countLost(isWritten ? skipped : [...delivery.parcels, ...skipped])
    if (isWritten) durable(sending)
    else dropped(sending, taken.rejected)
    if (skipped.length > 0) dropped(sending, 'writers ended over it')
  }

  async #try(sending: Sending): Promise<void> {
    const [first, ...others] = sending.delivery.parcels
    const isAlone = first !== undefined && others.length === 0
    if (this.#deps.careful === 1) await this.#deps.trying(isAlone ? nameOf(first) : null)
    const taken = this.#take(sending)
    await this.#deps.writer.flush()
    await taken
  }

  #forget(sending: Sending): void {
    this.#sending.delete(sending)
    this.unackedBytes -= sending.bytes
    if (!this.#isPaused || this.unackedBytes > unackedBytesMax / 2) return
    this.#isPaused = false
    this.#deps.resume()
  }

  /** A large slot is several parcels, and counts once. */
  #countLost(parcels: readonly Parcel[]): void {
    const slots = new Set<number>()
    for (const { feed, content } of parcels)
      if (feed === 'slots') slots.add(content.slot)
      else this.#deps.lost(feed, 1)
    if (slots.size > 0) this.#deps.lost('slots', slots.size)
  }

  #sendingOf(gathered: readonly Parcel[]): Sending {
    const marks: { -readonly [K in keyof Marks]: Marks[K] } = {}
    const cursors: { -readonly [K in keyof FeedCursors]: FeedCursors[K] } = {}
    let sinceMs = Number.POSITIVE_INFINITY
    for (const parcel of gathered) {
      const { feed, mark, cursor } = parcel
      sinceMs = Math.min(sinceMs, parcel.sinceMs)
      if (mark !== null && (feed === 'slots' || feed === 'events')) marks[feed] = mark
      if (cursor === undefined || feed === 'slots') continue
      if (feed === 'events') cursors.events = cursor
      else cursors[`${feed} ${cursor.run}`] = cursor.seq
    }
    if (this.#deps.marksFacts) for (const [run, seq] of factsIn(cursors)) marks[run] = seq
    const isSkipped = (parcel: Parcel) => this.#deps.skip.includes(nameOf(parcel))
    const skipped = this.#deps.skip.length === 0 ? [] : gathered.filter(isSkipped)
    const parcels = skipped.length === 0 ? gathered : gathered.filter((one) => !isSkipped(one))
    return { delivery: { parcels, marks }, skipped, cursors, bytes: this.#gatheredBytes, sinceMs }
  }
}

/** The same whenever it is read. */
function nameOf({ feed, content, cursor, bytes }: Parcel): string {
  if (feed === 'slots') return `slot ${content.slot} ${bytes}`
  return feed === 'events' ? `events ${content.seq}` : `${feed} ${cursor?.run} ${cursor?.seq}`
}

/** The entries of facts among cursors or marks. */
function* factsIn(positions: FeedCursors | Marks): Generator<[FactMark, number]> {
  // Reason for the casts: only the names of facts contain a space.
  for (const [name, seq] of Object.entries(positions))
    if (name.includes(' ')) yield [name as FactMark, seq as number]
}
