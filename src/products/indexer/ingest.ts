// Fills the index: from the logs of the roads to the writer process. Thread: main.
//
//   event log ---- EventSource --+                                 writer process
//   hub, lane 1 -- SlotSource ---+--> Outbox (8 MiB unanswered) --> rows/ --> sink
//   TPU, door ---- QueueSource --+        ^----- durable -------------'
//
// Everything is pulled at the writer's pace; a writer that stands still costs the roads nothing.
import type { Clock } from '../../base/clock.ts'
import type { Running } from '../../base/running.ts'
import type { SolanaUpdate } from '../../solana/updates.ts'
import type { Hub } from '../../stream/hub.ts'
import type { EventLog } from '../../stream/log.ts'
import type { Log } from '../../telemetry/log.ts'
import type { IndexerSection } from './config.ts'
import { EventSource } from './feed/event-source.ts'
import type { IngestMeters } from './feed/meters.ts'
import { Outbox, type Sending } from './feed/outbox.ts'
import { SlotSource } from './feed/slot-source.ts'
import { QueueSource } from './feed/source.ts'
import { WriterLink } from './feed/writer-link.ts'
import type { TipFact, UsageFact } from './parcels.ts'

/** What is under way at a stop gets this long to arrive. */
const drainMsMax = 2_500
const drainStepMs = 10

export type IngestSection = Pick<
  IndexerSection,
  'engine' | 'url' | 'retentionDays' | 'retentionBytes'
>

export interface IngestDeps {
  readonly events: EventLog
  /** Null without a Solana chain. Only an embedded one may begin anew below what the index has. */
  readonly solana: { readonly hub: Hub<SolanaUpdate>; readonly isEmbedded: boolean } | null
  /** Where DuckDB keeps its files. */
  readonly folder: string
  /** Names this server where only one may write. */
  readonly holder: string
  readonly meters: IngestMeters
  readonly clock: Clock
  readonly log: Log
  /** Another writer than workers/index-writer.ts, for tests. */
  readonly writerEntry?: string | URL
}

/** What the index holds durably, and how long ago that was said; nulls before the first. */
export interface Freshness {
  readonly slot: number | null
  readonly slotAgeMs: number | null
  readonly block: number | null
  readonly blockAgeMs: number | null
}

export interface RunningIngest extends Running {
  tip(fact: TipFact): void
  usage(fact: UsageFact): void
  freshness(): Freshness
  /** Age of the oldest thing that is said and not durable; 0 when there is none. */
  lagMs(): number
  /** Of the writer process; 0 while there is none. */
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
  const tips = new QueueSource<TipFact>(
    (content, about) => ({ feed: 'tips', content, ...about }),
    meters.lost.tips,
  )
  const queries = new QueueSource<UsageFact>(
    (content, about) => ({ feed: 'usage', content, ...about }),
    meters.lost.usage,
  )
  const slots = deps.solana && new SlotSource({ ...deps.solana, lost: meters.lost.slots, clock })
  const sources = [eventSource, tips, queries, ...(slots === null ? [] : [slots])]
  const { engine, url, retentionDays, retentionBytes } = section
  let link: WriterLink | null = null
  const outbox = new Outbox(sources, {
    deliver: (delivery) => link!.deliver(delivery),
    isOpen: () => link?.isOpen === true,
    onDurable(sending) {
      meters.delay.observeMs(clock.monotonicMs() - sending.sinceMs)
      fresh.durable(sending)
    },
    onAgain: () => meters.reread.inc(),
    onGivenUp(sending, reason) {
      countLost(sending, meters)
      log.error('the index gave up rows', { reason, bytes: sending.bytes })
    },
    clock,
  })
  meters.watch({ lagMs: () => outbox.lagMs(), unackedBytes: () => outbox.unackedBytes })
  link = await WriterLink.start({
    place: { engine, url, folder: deps.folder, retentionDays, retentionBytes, holder: deps.holder },
    entry: deps.writerEntry ?? 'index-writer',
    meters,
    clock,
    log,
    onOpen(marks) {
      fresh.resume(marks.slots)
      slots?.resume(marks.slots)
      outbox.writerOpened()
    },
  })
  const ends = [events.listen(() => outbox.wake())]
  if (deps.solana !== null && slots !== null) {
    // What the hub kept before we listened waits from now on.
    slots.noticed()
    ends.push(
      deps.solana.hub.listen((lane) => {
        // A slot's content reaches the lane with its status, or after it.
        if (lane !== 1) return
        slots.noticed()
        outbox.wake()
      }),
    )
  }
  const queue = <T>(into: QueueSource<T>, fact: T) => {
    into.push(fact, clock.monotonicMs())
    outbox.wake()
  }
  let stopping: Promise<void> | null = null
  return {
    address: null,
    tip: (fact) => queue(tips, fact),
    usage: (fact) => queue(queries, fact),
    freshness: () => fresh.read(),
    lagMs: () => outbox.lagMs(),
    pid: () => link.pid,
    stop() {
      stopping ??= (async () => {
        const endMs = performance.now() + drainMsMax
        await drain(outbox, link, endMs)
        for (const end of ends) end()
        slots?.finish()
        outbox.wake()
        await drain(outbox, link, endMs)
        outbox.stop()
        await link.stop()
      })()
      return stopping
    },
  }
}

/** Without a writer there is nothing to wait for. */
async function drain(outbox: Outbox, link: WriterLink, endMs: number): Promise<void> {
  while (!outbox.isEmpty && link.isOpen && performance.now() < endMs)
    await new Promise((resolve) => setTimeout(resolve, drainStepMs))
}

function countLost({ delivery }: Sending, { lost }: IngestMeters): void {
  lost.slots.inc(new Set(delivery.slots.map(({ slot }) => slot)).size)
  lost.events.inc(delivery.events.length)
  lost.tips.inc(delivery.tips.length)
  lost.usage.inc(delivery.usage.length)
}

/** The newest slot and block that are durable. */
class FreshnessTally {
  readonly #clock: Clock
  #slot: number | null = null
  #slotMs: number | null = null
  #block: number | null = null
  #blockMs: number | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** What an earlier run left. */
  resume(slot: number | undefined): void {
    this.#slot ??= slot ?? null
  }

  durable({ delivery, sinceMs }: Sending): void {
    const { slots } = delivery.marks
    if (slots !== undefined) {
      this.#slot = slots
      this.#slotMs = sinceMs
    }
    const block = delivery.events.findLast(({ kind }) => kind === 'ContentionData')?.facts
    if (block === undefined || block === null) return
    this.#block = block.blockNumber
    this.#blockMs = sinceMs
  }

  read(): Freshness {
    const nowMs = this.#clock.monotonicMs()
    const age = (sinceMs: number | null) => (sinceMs === null ? null : nowMs - sinceMs)
    return {
      slot: this.#slot,
      slotAgeMs: age(this.#slotMs),
      block: this.#block,
      blockAgeMs: age(this.#blockMs),
    }
  }
}
