// Starts the index writer process, opens its sink after every start, and calls it.
// Opening the sink is retried forever: the other pipelines go on, and `sluice_index_lag_seconds`
// grows.
import type { Clock } from '../../base/clock.ts'
import { messageOf } from '../../base/errors.ts'
import type { Log } from '../../base/telemetry/log.ts'
import { SupervisedChild } from '../../base/threads/child.ts'
import type { RestartPolicy } from '../../base/threads/supervisor.ts'
import type { Marks } from '../engine.ts'
import type { IngestMeters } from '../meters.ts'
import type { Delivery } from '../parcels.ts'
import type { SinkConfig, Taken, WriterEvents } from '../writer.ts'

/** Restarted forever: the rest of the service works without a writer. */
const backoff: RestartPolicy = {
  firstMs: 100,
  lastMs: 5_000,
  deathsMax: Number.POSITIVE_INFINITY,
  healthyMs: 10_000,
}
const openRetryMs = 1_000
/** Timeout of opening: recovery from a crash replays a hot file's log, which may be large. */
const openMsMax = 60_000
/** Timeout of stopping: the writer first writes its last rows. */
const stopMsMax = 5_000
/** Failures are logged at most once in this time. */
const logEveryMs = 1_000

export interface WriterLinkDeps {
  sink(): SinkConfig
  readonly entry: string | URL
  readonly meters: IngestMeters
  readonly clock: Clock
  readonly log: Log
  /** Called with the sink's marks each time it was opened. */
  onOpen(marks: Marks): void
}

export class WriterLink {
  readonly #deps: WriterLinkDeps
  #child: SupervisedChild | null = null
  #isOpen = false
  #isStopped = false
  #retry: NodeJS.Timeout | null = null
  #loggedMs = Number.NEGATIVE_INFINITY

  constructor(deps: WriterLinkDeps) {
    this.#deps = deps
  }

  /** Resolves when the process runs; its sink opens later. */
  async start(): Promise<void> {
    const { clock, entry, log, meters } = this.#deps
    this.#child = await SupervisedChild.start(
      {
        name: 'index writer',
        entry,
        backoff,
        stopMsMax,
        onStart: () => this.#started(),
        onEvent: (event, data) => this.#onEvent(event, data),
      },
      { clock, log, restarts: meters.restarts, onDown() {} },
    )
    this.#opening()
  }

  get isOpen(): boolean {
    return this.#isOpen && this.#child?.isRunning === true
  }

  get pid(): number {
    return this.#child?.pid ?? 0
  }

  async deliver(delivery: Delivery): Promise<Taken> {
    return this.#child!.call<Taken>('take', delivery)
  }

  /** Asks the writer not to wait for more rows. */
  flush(): void {
    // A writer that ended in between is reported by the deliveries.
    this.#child!.call('flush', null).catch(() => {})
  }

  /** Extends the writer's term. */
  extend(untilMs: number): void {
    // A writer that was restarted in between is opened with the newest end.
    this.#child!.call('extend', untilMs).catch(() => {})
  }

  stop(): Promise<void> {
    this.#isStopped = true
    if (this.#retry !== null) clearTimeout(this.#retry)
    return this.#child?.stop() ?? Promise.resolve()
  }

  #started(): void {
    this.#isOpen = false
    // At the first start `#child` is not set yet; `start` opens the sink then.
    if (this.#child !== null) this.#opening()
  }

  #opening(): void {
    const { sink, onOpen } = this.#deps
    this.#child!.call<Marks>('open', sink(), openMsMax).then(
      (marks) => {
        this.#isOpen = true
        onOpen(marks)
      },
      (error: unknown) => {
        // A process that died during the call is restarted, and opened then.
        if (this.#isStopped || this.#child?.isRunning !== true) return
        this.#onFailure(`sink open failed: ${messageOf(error)}`)
        this.#retry = setTimeout(() => this.#opening(), openRetryMs)
      },
    )
  }

  #onEvent(event: string, data: unknown): void {
    const { meters } = this.#deps
    if (event === 'failed') this.#onFailure(String(data))
    if (event === 'parts') meters.parts(data as Parameters<WriterEvents['parts']>[0])
    if (event !== 'wrote') return
    // Reason for the cast: workers/index-writer.ts pushes exactly this.
    const { rows, ms } = data as Parameters<WriterEvents['wrote']>[0]
    meters.batches.inc()
    meters.write.observeMs(ms)
    meters.wrote(rows)
  }

  #onFailure(reason: string): void {
    const { clock, log, meters } = this.#deps
    meters.writeFailures.inc()
    if (clock.monotonicMs() - this.#loggedMs < logEveryMs) return
    this.#loggedMs = clock.monotonicMs()
    log.warn('index write failed', { reason })
  }
}
