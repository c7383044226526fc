// The parent's side of the program that builds the index: starts it, restarts it, tells it where
// the gateway's streams are, and keeps its meters.
//
//   open(sink, gateways, cursors) ──► writer process: streams ─► rows ─► sink
//   meters, freshness, cursors    ◄── reports
//
// A stalled or dead writer never slows the other pipelines: it reads their streams as a customer
// does. Opening its sink is retried forever, and `sluice_index_lag_seconds` grows; while another
// program has the writer lease of ClickHouse, this one is standby.
import type { Clock } from '../base/clock.ts'
import { messageOf } from '../base/errors.ts'
import type { Log } from '../base/telemetry/log.ts'
import { restartForever, SupervisedChild } from '../base/threads/supervisor.ts'
import type { GeyserTarget } from '../upstream/geyser/geyser-client.ts'
import { heldText, type IngestSection } from './config.ts'
import type { Marks } from './engine.ts'
import type { GatewayChange } from './feed/feed-reader.ts'
import type { ItemFeed } from './feed-items.ts'
import type { IngestMeters } from './meters.ts'
import type { ProgramConfig, ProgramEvents, ProgramReport } from './program.ts'
import type { SinkConfig } from './writer.ts'

const openRetryMs = 1_000
/** Timeout of opening: recovery from a crash replays a hot file's log, which may be large. */
const openMsMax = 60_000
/** Timeout of reading and writing the last rows, and of the end after it. */
const drainMsMax = 3_000
const stopMsMax = 5_000
/** Failures are logged at most once in this time. */
const logEveryMs = 1_000
/** A process that reports nothing for so long is stuck or gone. */
const silentMs = 1_000
/** Processes that ended without having written anything, until the next ones are careful. */
const deathsUntilCareful = 2
/** Parcels that the next one writes at once, then the one after it, and so on. */
const carefulParcels = [256, 16, 1]
/** A parcel is skipped when so many processes ended while they tried it alone. */
export const triesMax = 3

export interface IngestDeps {
  /** Whose streams are read, and what is written of them before the end. */
  readonly feeds: {
    readonly gateways: readonly GeyserTarget[]
    /** Absent for gateways elsewhere, which go on. */
    positions?(): Readonly<Record<ItemFeed, number>>
  }
  /** Folder of DuckDB's files. */
  readonly folder: string
  /** Names this server in the writer lease of ClickHouse. */
  readonly holder: string
  readonly meters: IngestMeters
  readonly clock: Clock
  readonly log: Log
}

/** Newest durable slot and block, and the age of their updates; nulls before the first. */
export interface Freshness {
  readonly slot: number | null
  readonly slotAgeMs: number | null
  readonly block: number | null
  readonly blockAgeMs: number | null
}

/** Where another program writes the index. */
export const unknownFreshness: Freshness = {
  ...{ slot: null, slotAgeMs: null, block: null, blockAgeMs: null },
}

const gatewayTexts = {
  read: 'gateway is read',
  lost: 'gateway cannot be reached',
  refused: 'gateway refused the credential: enroll this indexer there',
}

const nothing: ProgramReport = {
  ...{ lagMs: 0, unackedBytes: 0, cursors: {}, lost: {}, reread: 0 },
  ...{ delaysMs: [], isCareful: false },
  freshness: { slot: null, slotAtMs: null, block: null, blockAtMs: null },
}

export class IngestPipeline {
  readonly address = null
  readonly #section: IngestSection
  readonly #deps: IngestDeps
  readonly #log: Log
  #child: SupervisedChild | null = null
  #report = nothing
  #reportedMs: number
  /** Since something became durable: processes that ended, and parcels that they tried alone. */
  #deaths = 0
  readonly #tries = new Map<string, number>()
  #trying: string | null = null
  #retry: NodeJS.Timeout | null = null
  #loggedMs = Number.NEGATIVE_INFINITY
  /** The program that writes instead; '' while none does. */
  #standby = ''
  #stopping: Promise<void> | null = null

  private constructor(section: IngestSection, deps: IngestDeps) {
    this.#section = section
    this.#deps = deps
    this.#log = deps.log.area('indexer')
    this.#reportedMs = deps.clock.monotonicMs()
    deps.meters.watch({ lagMs: () => this.lagMs(), unackedBytes: () => this.unackedBytes() })
  }

  /** Resolves when the writer process runs; its sink opens later. */
  static async start(section: IngestSection, deps: IngestDeps): Promise<IngestPipeline> {
    const ingest = new IngestPipeline(section, deps)
    const { clock, meters } = deps
    ingest.#child = await SupervisedChild.start(
      {
        ...{ name: 'index writer', entry: 'index-writer', backoff: restartForever, stopMsMax },
        onStart: () => ingest.#restarted(),
        onEvent: (event, data) => ingest.#receive(event, data),
      },
      { clock, log: ingest.#log, restarts: meters.restarts, onDown() {} },
    )
    ingest.#open()
    return ingest
  }

  freshness(): Freshness {
    const { slot, slotAtMs, block, blockAtMs } = this.#report.freshness
    const nowMs = this.#deps.clock.nowMs()
    const age = (atMs: number | null) => (atMs === null ? null : Math.max(0, nowMs - atMs))
    return { slot, slotAgeMs: age(slotAtMs), block, blockAgeMs: age(blockAtMs) }
  }

  /** Age of the oldest update that is not yet durable; 0 when all are, and while it is standby. */
  lagMs(): number {
    if (this.#standby !== '') return 0
    const sinceMs = this.#deps.clock.monotonicMs() - this.#reportedMs
    return this.#report.lagMs + (sinceMs > silentMs ? sinceMs : 0)
  }

  /** Process id of the writer; 0 while no writer runs. */
  pid(): number {
    return this.#child?.pid ?? 0
  }

  unackedBytes(): number {
    return this.#report.unackedBytes
  }

  /** What is durable of the feeds that have numbers. */
  cursors(): ProgramReport['cursors'] {
    return this.#report.cursors
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#drain().then(() => this.#end())
    return this.#stopping
  }

  #restarted(): void {
    // The first process is opened by `start`.
    if (this.#child === null) return
    this.#deaths++
    if (this.#trying !== null)
      this.#tries.set(this.#trying, (this.#tries.get(this.#trying) ?? 0) + 1)
    this.#trying = null
    this.#open()
  }

  #open(): void {
    if (this.#retry !== null) clearTimeout(this.#retry)
    const careful = this.#deaths - deathsUntilCareful
    const config: ProgramConfig = {
      sink: this.#sinkConfig(),
      gateways: this.#deps.feeds.gateways,
      cursors: this.#report.cursors,
      skip: [...this.#tries].flatMap(([name, tries]) => (tries < triesMax ? [] : [name])),
      careful: carefulParcels[Math.min(careful, carefulParcels.length - 1)] ?? null,
    }
    this.#child!.call<Marks>('open', config, openMsMax).then(
      () => {
        if (this.#standby !== '') this.#log.info('this program writes the index from now on')
        this.#standby = ''
      },
      (error: unknown) => {
        // A process that died during the call is restarted, and opened then.
        if (this.#stopping !== null || this.#child?.isRunning !== true) return
        const reason = messageOf(error)
        if (reason.startsWith(heldText)) this.#standBy(reason)
        else this.#failed(`sink open failed: ${reason}`)
        this.#retry = setTimeout(() => this.#open(), openRetryMs)
      },
    )
  }

  #receive(event: string, data: unknown): void {
    const { meters } = this.#deps
    // Reason for the casts: workers/index-writer.ts pushes exactly these.
    type Given<E extends keyof ProgramEvents> = Parameters<NonNullable<ProgramEvents[E]>>[0]
    if (event === 'failed') this.#failed(String(data))
    else if (event === 'parts') meters.parts(data as Given<'parts'>)
    else if (event === 'trying') this.#trying = data as Given<'trying'>
    else if (event === 'dropped')
      this.#log.error('index delivery dropped', data as Given<'dropped'>)
    else if (event === 'report') this.#reported(data as ProgramReport)
    else if (event === 'gateway') this.#gatewayChanged(data as Given<'gateway'>)
    else if (event === 'wrote') {
      const { rows, ms } = data as Given<'wrote'>
      meters.batches.inc()
      meters.write.observeMs(ms)
      meters.wrote(rows)
    }
  }

  #reported(report: ProgramReport): void {
    const { meters, clock } = this.#deps
    this.#report = report
    this.#reportedMs = clock.monotonicMs()
    for (const [feed, count] of Object.entries(report.lost))
      meters.lost[feed as keyof typeof meters.lost].inc(count)
    if (report.reread > 0) meters.reread.inc(report.reread)
    for (const delayMs of report.delaysMs) meters.delay.observeMs(delayMs)
    if (report.delaysMs.length === 0) return
    if (report.isCareful) return
    this.#deaths = 0
    this.#trying = null
  }

  /** Says once per holder that another program writes. */
  #standBy(reason: string): void {
    const [writer = ''] = reason.slice(heldText.length + 2).split('. ')
    if (writer !== this.#standby)
      this.#log.info('standby: another program writes the index', { writer })
    this.#standby = writer
  }

  #gatewayChanged({ gateway, state }: GatewayChange): void {
    // The own gateway is where this process is.
    if (this.#deps.feeds.positions !== undefined) return
    const level = state === 'read' ? 'info' : 'warn'
    this.#log[level](gatewayTexts[state], { gateway })
  }

  #failed(reason: string): void {
    const { clock, meters } = this.#deps
    meters.writeFailures.inc()
    if (clock.monotonicMs() - this.#loggedMs < logEveryMs) return
    this.#loggedMs = clock.monotonicMs()
    this.#log.warn('index write failed', { reason })
  }

  #sinkConfig(): SinkConfig {
    const { engine, url, clickhouse, retentionDays, retentionBytes } = this.#section
    const { folder, holder } = this.#deps
    return { engine, url, clickhouse, retentionDays, retentionBytes, folder, holder }
  }

  /** Waits until what the gateway has by now is durable; returns at once without a writer. */
  async #drain(): Promise<void> {
    const positions = this.#deps.feeds.positions?.()
    if (positions === undefined) return
    // A writer that ends or hangs meanwhile leaves it to the next one.
    await this.#child?.call('drain', positions, drainMsMax).catch(() => {})
  }

  async #end(): Promise<void> {
    if (this.#retry !== null) clearTimeout(this.#retry)
    await this.#child?.stop()
  }
}
