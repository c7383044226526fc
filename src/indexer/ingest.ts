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
import type { Running } from '../base/running.ts'
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

export interface RunningIngest extends Running {
  /** Reads the slots of this hub from now on, continuing at the index's mark. Called once. */
  follow(hub: Hub<SolanaUpdate>): void
  tip(fact: TipFact): void
  usage(fact: UsageFact): void
  freshness(): Freshness
  /** Age of the oldest update that is not yet durable; 0 when all are. */
  lagMs(): number
  /** Process id of the writer; 0 while no writer runs. */
  pid(): number
}

export interface IngestPipeline extends RunningIngest {
  unackedBytes(): number
  /** Sends the writer a later end of its term. */
  extend(): void
  /** For how long nothing became durable although something waits; 0 when nothing does. */
  stuckMs(): number
  /** Stops without waiting for what is not yet durable. */
  abort(): Promise<void>
}

export async function startIngest(
  section: IngestSection,
  deps: IngestDeps,
): Promise<IngestPipeline> {
  const { clock, events, meters, role = 'all' } = deps
  const log = deps.log.area('indexer')
  const fresh = new FreshnessTally(clock)
  const eventSource = new EventSource(events, meters.lost.events)
  const tips = new QueueSource('tips', meters.lost.tips)
  const queries = new QueueSource('usage', meters.lost.usage)
  let slots: SlotSource | null = null
  let marks: Marks | null = null
  let link: WriterLink | null = null
  let progressMs = clock.monotonicMs()
  const isOpen = () => link?.isOpen === true && isWithin(role)
  const outbox = new Outbox(role === 'own facts' ? [tips, queries] : [eventSource, tips, queries], {
    deliver: (delivery) => link!.deliver(delivery),
    isOpen,
    onDurable(sending) {
      progressMs = clock.monotonicMs()
      meters.delay.observeMs(clock.monotonicMs() - sending.sinceMs)
      fresh.durable(sending)
    },
    onRetry: () => meters.reread.inc(),
    onDropped(sending, reason) {
      countLost(sending, meters)
      log.error('index delivery dropped', { reason, bytes: sending.bytes })
    },
    clock,
  })
  meters.watch({ lagMs: () => outbox.lagMs(), unackedBytes: () => outbox.unackedBytes })
  link = await WriterLink.start({
    sink: () => sinkConfigOf(section, deps),
    entry: deps.writerEntry ?? 'index-writer',
    meters,
    clock,
    log,
    onOpen(opened) {
      marks = opened
      progressMs = clock.monotonicMs()
      if (typeof role === 'object') eventSource.resume(marks.events)
      fresh.resume(marks.slots)
      slots?.resume(marks.slots)
      outbox.writerOpened()
    },
  })
  const ends =
    role === 'own facts' ? [] : [events.listen(() => outbox.wake()), eventSource.watchRestarts()]
  let stopping: Promise<void> | null = null
  const end = async () => {
    for (const end of ends) end()
    outbox.stop()
    await link.stop()
  }
  return {
    address: null,
    follow(hub) {
      slots = new SlotSource({ hub, lost: meters.lost.slots, clock })
      if (marks !== null) slots.resume(marks.slots)
      ends.push(listenTo(hub, slots, outbox))
      outbox.add(slots)
    },
    tip(fact) {
      tips.push(fact, clock.monotonicMs())
      outbox.wake()
    },
    usage(fact) {
      queries.push(fact, clock.monotonicMs())
      outbox.wake()
    },
    freshness: () => fresh.read(),
    lagMs: () => outbox.lagMs(),
    pid: () => link.pid,
    unackedBytes: () => outbox.unackedBytes,
    extend() {
      if (typeof role === 'object') link.extend(role.untilMs())
    },
    stuckMs: () => Math.min(outbox.lagMs(), clock.monotonicMs() - progressMs),
    abort() {
      stopping ??= end()
      return stopping
    },
    stop() {
      stopping ??= drain(outbox, link, isOpen).then(end)
      return stopping
    },
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

function isWithin(role: IngestRole): boolean {
  return typeof role !== 'object' || machineMs() < role.untilMs()
}

function sinkConfigOf(section: IngestSection, deps: IngestDeps): SinkConfig {
  const { engine, url, clickhouse, retentionDays, retentionBytes } = section
  const { folder, holder, role = 'all' } = deps
  const now = typeof role === 'object' ? { term: role.term, untilMs: role.untilMs() } : role
  return { engine, url, clickhouse, retentionDays, retentionBytes, folder, holder, role: now }
}

/** Waits until the outbox is empty; returns at once without a writer. */
async function drain(outbox: Outbox, link: WriterLink, isOpen: () => boolean): Promise<void> {
  const endMs = performance.now() + drainMsMax
  while (!outbox.isEmpty && isOpen() && performance.now() < endMs) {
    link.flush()
    await new Promise((resolve) => setTimeout(resolve, drainStepMs))
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
