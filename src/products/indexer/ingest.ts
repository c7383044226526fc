// The ingest pipeline of the index: from the event log, the hub, tips and usage to the writer
// process. Thread: main.
//
//   event log ----- EventSource --+                                writer process
//   hub ----------- SlotSource ---+--> Outbox (8 MiB unacked) ----> rows/ --> sink
//   tips, queries - QueueSource --+        ^----- durable ------------'
//
// Sources are pulled at the writer's pace; a stalled writer never slows the other pipelines.
import type { Clock } from '../../base/clock.ts'
import { Commitment } from '../../base/commitment.ts'
import type { Running } from '../../base/running.ts'
import type { SolanaUpdate } from '../../solana/updates.ts'
import type { Hub } from '../../stream/hub.ts'
import type { EventLog } from '../../stream/log.ts'
import type { Log } from '../../telemetry/log.ts'
import type { IndexerSection } from './config.ts'
import type { Marks } from './engine.ts'
import { Outbox, type Sending } from './feed/outbox.ts'
import { SlotSource } from './feed/slot-source.ts'
import { EventSource, QueueSource } from './feed/source.ts'
import { WriterLink } from './feed/writer-link.ts'
import type { IngestMeters } from './meters.ts'
import type { TipFact, UsageFact } from './parcels.ts'

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
  /** Replaces workers/index-writer.ts in tests. */
  readonly writerEntry?: string | URL
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

export async function startIngest(
  section: IngestSection,
  deps: IngestDeps,
): Promise<RunningIngest> {
  const { clock, events, meters } = deps
  const log = deps.log.area('indexer')
  const fresh = new FreshnessTally(clock)
  const eventSource = new EventSource(events, meters.lost.events)
  const tips = new QueueSource('tips', meters.lost.tips)
  const queries = new QueueSource('usage', meters.lost.usage)
  let slots: SlotSource | null = null
  let marks: Marks | null = null
  const { engine, url, clickhouse, retentionDays, retentionBytes } = section
  const { folder, holder } = deps
  let link: WriterLink | null = null
  const outbox = new Outbox([eventSource, tips, queries], {
    deliver: (delivery) => link!.deliver(delivery),
    isOpen: () => link?.isOpen === true,
    onDurable(sending) {
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
    sink: { engine, url, clickhouse, retentionDays, retentionBytes, folder, holder },
    entry: deps.writerEntry ?? 'index-writer',
    meters,
    clock,
    log,
    onOpen(opened) {
      marks = opened
      fresh.resume(marks.slots)
      slots?.resume(marks.slots)
      outbox.writerOpened()
    },
  })
  const ends = [events.listen(() => outbox.wake())]
  let stopping: Promise<void> | null = null
  return {
    address: null,
    follow(hub) {
      const source = new SlotSource({ hub, lost: meters.lost.slots, clock })
      slots = source
      if (marks !== null) source.resume(marks.slots)
      // Updates that the hub received before the listener was added count as waiting from now on.
      source.onUpdate()
      ends.push(
        hub.listen(
          (commitment) => {
            // A slot's content is published as confirmed with its status, or after it.
            if (commitment !== Commitment.confirmed) return
            source.onUpdate()
            outbox.wake()
          },
          () => false,
        ),
      )
      outbox.add(source)
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
    stop() {
      stopping ??= (async () => {
        await drain(outbox, link)
        for (const end of ends) end()
        outbox.stop()
        await link.stop()
      })()
      return stopping
    },
  }
}

/** Waits until the outbox is empty; returns at once without a writer. */
async function drain(outbox: Outbox, link: WriterLink): Promise<void> {
  const endMs = performance.now() + drainMsMax
  while (!outbox.isEmpty && link.isOpen && performance.now() < endMs) {
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
