// The ingest pipeline of the index: from the event log, the hub, tips and usage to the writer
// process.
//
//   event log ----- EventSource --+                                writer process
//   hub ----------- SlotSource ---+--> Outbox (8 MiB unacked) ----> rows/ --> sink
//   tips, queries - QueueSource --+        ^----- durable ------------'
//
// Sources are pulled at the writer's pace; a stalled writer never slows the other pipelines.
import { type Clock, machineMs } from '../base/clock.ts'
import { Commitment } from '../base/commitment.ts'
import type { Log } from '../base/telemetry/log.ts'
import type { SolanaUpdate } from '../chain/solana/updates.ts'
import type { Hub } from '../streams/hub/hub.ts'
import type { EventLog } from '../streams/log/log.ts'
import type { IndexerSection } from './config.ts'
import type { Marks } from './engine.ts'
import { Outbox, type Sending } from './feed/outbox.ts'
import { SlotSource } from './feed/slot-source.ts'
import { EventSource, QueueSource } from './feed/source.ts'
import { WriterLink } from './feed/writer-link.ts'
import type { IngestMeters } from './meters.ts'
import type { TipFact, UsageFact } from './parcels.ts'
import type { SinkConfig } from './writer.ts'

/** Timeout of draining unacknowledged deliveries at shutdown. */
const drainMsMax = 2_500
const drainStepMs = 10

export type IngestSection = Pick<
  IndexerSection,
  'engine' | 'url' | 'clickhouse' | 'retentionDays' | 'retentionBytes'
>

export interface IngestDeps {
  readonly events: EventLog
  /** Folder of DuckDB's files. */
  readonly folder: string
  /** Names this server in the writer lease of ClickHouse. */
  readonly holder: string
  readonly meters: IngestMeters
  readonly clock: Clock
  readonly log: Log
  /** Everything by default; leased-ingest.ts has one part for each of the others. */
  readonly role?: IngestRole
  /** Replaces workers/index-writer.ts in tests. */
  readonly writerEntry?: string | URL
}

export type IngestRole = 'all' | 'own facts' | IngestTerm

/** Slots and events, during a term of the cluster's lease. */
export interface IngestTerm {
  readonly term: number
  /** By `machineMs`; grows while the lease is renewed. */
  untilMs(): number
}

/** Newest durable slot and block, and the age of their updates; nulls before the first. */
export interface Freshness {
  readonly slot: number | null
  readonly slotAgeMs: number | null
  readonly block: number | null
  readonly blockAgeMs: number | null
}

/** What the service uses of it; leased-ingest.ts has the one of several gateways. */
export type RunningIngest = Pick<
  IngestPipeline,
  'address' | 'follow' | 'tip' | 'usage' | 'freshness' | 'lagMs' | 'pid' | 'stop'
>

export class IngestPipeline {
  readonly address = null
  readonly #section: IngestSection
  readonly #deps: IngestDeps
  readonly #log: Log
  readonly #role: IngestRole
  readonly #fresh: FreshnessTally
  readonly #events: EventSource
  readonly #tips: QueueSource<'tips'>
  readonly #usage: QueueSource<'usage'>
  readonly #outbox: Outbox
  readonly #link: WriterLink
  /** Of the writer's last opening; null before the first. */
  #marks: Marks | null = null
  #slots: SlotSource | null = null
  /** When something became durable, or the writer opened. */
  #progressMs: number
  readonly #ends: (() => void)[] = []
  #stopping: Promise<void> | null = null

  private constructor(section: IngestSection, deps: IngestDeps) {
    const { clock, events, meters, role = 'all' } = deps
    this.#section = section
    this.#deps = deps
    this.#log = deps.log.area('indexer')
    this.#role = role
    this.#fresh = new FreshnessTally(clock)
    this.#progressMs = clock.monotonicMs()
    this.#events = new EventSource(events, meters.lost.events)
    this.#tips = new QueueSource('tips', meters.lost.tips)
    this.#usage = new QueueSource('usage', meters.lost.usage)
    this.#link = new WriterLink({
      sink: () => this.#sinkConfig(),
      entry: deps.writerEntry ?? 'index-writer',
      meters,
      clock,
      log: this.#log,
      onOpen: (marks) => this.#opened(marks),
    })
    const own = [this.#tips, this.#usage]
    this.#outbox = new Outbox(role === 'own facts' ? own : [this.#events, ...own], {
      deliver: (delivery) => this.#link.deliver(delivery),
      isOpen: () => this.#isOpen(),
      onDurable: (sending) => this.#durable(sending),
      onRetry: () => meters.reread.inc(),
      onDropped: (sending, reason) => this.#dropped(sending, reason),
      clock,
    })
    meters.watch({ lagMs: () => this.lagMs(), unackedBytes: () => this.unackedBytes() })
  }

  /** Resolves when the writer process runs; its sink opens later. */
  static async start(section: IngestSection, deps: IngestDeps): Promise<IngestPipeline> {
    const ingest = new IngestPipeline(section, deps)
    await ingest.#link.start()
    if (ingest.#role !== 'own facts') {
      ingest.#ends.push(deps.events.listen(() => ingest.#outbox.wake()))
      ingest.#ends.push(ingest.#events.watchRestarts())
    }
    return ingest
  }

  /** Reads the slots of this hub from now on, continuing at the index's mark. Called once. */
  follow(hub: Hub<SolanaUpdate>): void {
    const { clock, meters } = this.#deps
    this.#slots = new SlotSource({ hub, lost: meters.lost.slots, clock })
    if (this.#marks !== null) this.#slots.resume(this.#marks.slots)
    this.#ends.push(listenTo(hub, this.#slots, this.#outbox))
    this.#outbox.add(this.#slots)
  }

  tip(fact: TipFact): void {
    this.#tips.push(fact, this.#deps.clock.monotonicMs())
    this.#outbox.wake()
  }

  usage(fact: UsageFact): void {
    this.#usage.push(fact, this.#deps.clock.monotonicMs())
    this.#outbox.wake()
  }

  freshness(): Freshness {
    return this.#fresh.read()
  }

  /** Age of the oldest update that is not yet durable; 0 when all are. */
  lagMs(): number {
    return this.#outbox.lagMs()
  }

  /** Process id of the writer; 0 while no writer runs. */
  pid(): number {
    return this.#link.pid
  }

  unackedBytes(): number {
    return this.#outbox.unackedBytes
  }

  /** Sends the writer a later end of its term. */
  extend(): void {
    if (typeof this.#role === 'object') this.#link.extend(this.#role.untilMs())
  }

  /** For how long nothing became durable although something waits; 0 when nothing does. */
  stuckMs(): number {
    return Math.min(this.lagMs(), this.#deps.clock.monotonicMs() - this.#progressMs)
  }

  /** Stops without waiting for what is not yet durable. */
  abort(): Promise<void> {
    this.#stopping ??= this.#end()
    return this.#stopping
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#drain().then(() => this.#end())
    return this.#stopping
  }

  #isOpen(): boolean {
    const isWithin = typeof this.#role !== 'object' || machineMs() < this.#role.untilMs()
    return this.#link.isOpen && isWithin
  }

  #opened(marks: Marks): void {
    this.#marks = marks
    this.#progressMs = this.#deps.clock.monotonicMs()
    if (typeof this.#role === 'object') this.#events.resume(marks.events)
    this.#fresh.resume(marks.slots)
    this.#slots?.resume(marks.slots)
    this.#outbox.writerOpened()
  }

  #durable(sending: Sending): void {
    this.#progressMs = this.#deps.clock.monotonicMs()
    this.#deps.meters.delay.observeMs(this.#progressMs - sending.sinceMs)
    this.#fresh.durable(sending)
  }

  #dropped(sending: Sending, reason: string): void {
    countLost(sending, this.#deps.meters)
    this.#log.error('index delivery dropped', { reason, bytes: sending.bytes })
  }

  #sinkConfig(): SinkConfig {
    const { engine, url, clickhouse, retentionDays, retentionBytes } = this.#section
    const { folder, holder } = this.#deps
    const role = this.#role
    const now = typeof role === 'object' ? { term: role.term, untilMs: role.untilMs() } : role
    return { engine, url, clickhouse, retentionDays, retentionBytes, folder, holder, role: now }
  }

  /** Waits until the outbox is empty; returns at once without a writer. */
  async #drain(): Promise<void> {
    const endMs = performance.now() + drainMsMax
    while (!this.#outbox.isEmpty && this.#isOpen() && performance.now() < endMs) {
      this.#link.flush()
      await new Promise((resolve) => setTimeout(resolve, drainStepMs))
    }
  }

  async #end(): Promise<void> {
    for (const end of this.#ends) end()
    this.#outbox.stop()
    await this.#link.stop()
  }
}

/** Wakes the outbox for each confirmed update; returns the function that ends it. */
function listenTo(hub: Hub<SolanaUpdate>, source: SlotSource, outbox: Outbox): () => void {
  // Updates that the hub received before the listener was added count as waiting from now on.
  source.onUpdate()
  const unwatch = hub.onRestart(() => source.restart())
  const unlisten = hub.listen(
    (commitment) => {
      // A slot's content is published as confirmed with its status, or after it.
      if (commitment !== Commitment.confirmed) return
      source.onUpdate()
      outbox.wake()
    },
    () => false,
  )
  return () => {
    unlisten()
    unwatch()
  }
}

/** A large slot is several parcels, and counts once. */
function countLost({ delivery }: Sending, { lost }: IngestMeters): void {
  const slots = new Set<number>()
  for (const { feed, content } of delivery.parcels)
    if (feed === 'slots') slots.add(content.slot)
    else lost[feed].inc()
  lost.slots.inc(slots.size)
}

/** Tracks the newest durable slot and block. */
class FreshnessTally {
  readonly #clock: Clock
  #slot: { readonly number: number; readonly sinceMs: number | null } | null = null
  #block: { readonly number: number; readonly sinceMs: number } | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The slot mark left by an earlier run. */
  resume(slot: number | undefined): void {
    if (slot !== undefined) this.#slot ??= { number: slot, sinceMs: null }
  }

  durable({ delivery, sinceMs }: Sending): void {
    const { slots } = delivery.marks
    if (slots !== undefined) this.#slot = { number: slots, sinceMs }
    const last = delivery.parcels.findLast(
      ({ feed, content }) => feed === 'events' && content.kind === 'ContentionData',
    )
    if (last?.feed !== 'events' || last.content.facts === null) return
    this.#block = { number: last.content.facts.blockNumber, sinceMs }
  }

  read(): Freshness {
    const nowMs = this.#clock.monotonicMs()
    const age = (sinceMs: number | null = null) => (sinceMs === null ? null : nowMs - sinceMs)
    return {
      slot: this.#slot?.number ?? null,
      slotAgeMs: age(this.#slot?.sinceMs),
      block: this.#block?.number ?? null,
      blockAgeMs: age(this.#block?.sinceMs),
    }
  }
}
