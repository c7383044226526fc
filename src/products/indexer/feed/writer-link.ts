// The writer process as the feeds see it: started, opened after every start, called. Thread: main.
// A sink that does not open is tried again for ever: the roads go on, and the lag tells.
import type { Clock } from '../../../base/clock.ts'
import { messageOf } from '../../../base/errors.ts'
import type { Log } from '../../../telemetry/log.ts'
import { SupervisedChild } from '../../../threads/child.ts'
import type { Backoff } from '../../../threads/supervisor.ts'
import type { Marks } from '../engine.ts'
import type { Delivery } from '../parcels.ts'
import type { SinkPlace, Taken, WriterEvents } from '../writer.ts'
import type { IngestMeters } from './meters.ts'

/** It is never given up: without a writer the rest of the service is as good as before. */
const backoff: Backoff = {
  firstMs: 100,
  lastMs: 5_000,
  deathsMax: Number.POSITIVE_INFINITY,
  healthyMs: 10_000,
}
const openRetryMs = 1_000
/** Opening reads back what a crash left; a large hot file takes its time. */
const openMsMax = 60_000
/** Its last rows are written before it goes. */
const stopMsMax = 5_000
/** Troubles are logged once in this time. */
const logEveryMs = 1_000

export interface WriterLinkDeps {
  readonly place: SinkPlace
  readonly entry: string | URL
  readonly meters: IngestMeters
  readonly clock: Clock
  readonly log: Log
  /** A sink is open; these are its marks. */
  onOpen(marks: Marks): void
}

export class WriterLink {
  readonly #deps: WriterLinkDeps
  #child: SupervisedChild | null = null
  #isOpen = false
  #isStopped = false
  #retry: NodeJS.Timeout | null = null
  #loggedMs = Number.NEGATIVE_INFINITY

  private constructor(deps: WriterLinkDeps) {
    this.#deps = deps
  }

  /** Resolves when the process is there; its sink opens in its own time. */
  static async start(deps: WriterLinkDeps): Promise<WriterLink> {
    const link = new WriterLink(deps)
    const { clock, log, meters } = deps
    link.#child = await SupervisedChild.start(
      {
        name: 'index writer',
        entry: deps.entry,
        backoff,
        stopMsMax,
        onStart: () => link.#started(),
        onEvent: (event, data) => link.#heard(event, data),
      },
      { clock, log, restarts: meters.restarts, onDown() {} },
    )
    link.#opening()
    return link
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

  stop(): Promise<void> {
    this.#isStopped = true
    if (this.#retry !== null) clearTimeout(this.#retry)
    return this.#child?.stop() ?? Promise.resolve()
  }

  #started(): void {
    this.#isOpen = false
    // At the first start the child is not ours yet; `start` goes on from there.
    if (this.#child !== null) this.#opening()
  }

  #opening(): void {
    const { place, onOpen } = this.#deps
    this.#child!.call<Marks>('open', place, openMsMax).then(
      (marks) => {
        this.#isOpen = true
        onOpen(marks)
      },
      (error: unknown) => {
        // A process that died under the call starts again, and is opened then.
        if (this.#isStopped || this.#child?.isRunning !== true) return
        this.#trouble(`it did not open: ${messageOf(error)}`)
        this.#retry = setTimeout(() => this.#opening(), openRetryMs)
      },
    )
  }

  #heard(event: string, data: unknown): void {
    const { meters } = this.#deps
    if (event === 'trouble') this.#trouble(String(data))
    if (event !== 'wrote') return
    // Reason for the cast: workers/index-writer.ts pushes exactly this.
    const { rows, ms } = data as Parameters<WriterEvents['wrote']>[0]
    meters.batches.inc()
    meters.write.observeMs(ms)
    meters.wrote(rows)
  }

  #trouble(reason: string): void {
    const { clock, log, meters } = this.#deps
    meters.writeFailures.inc()
    if (clock.monotonicMs() - this.#loggedMs < logEveryMs) return
    this.#loggedMs = clock.monotonicMs()
    log.warn('the index could not be written', { reason })
  }
}
