// The ingest pipeline of one of several gateways that share a ClickHouse server.
//
//   tips, queries of this gateway ────────────────────────────────► its own writer process
//   events, slots ── while it has the cluster's lease ──► a writer process for this term
//
// Exactly one gateway writes slots and events. Each has the same streams: the writer of the one
// that takes over continues at the index's mark in them.
// A gateway that cannot write gives the lease up for a while.
import { machineMs } from '../base/clock.ts'
import { messageOf } from '../base/errors.ts'
import type { IngestSection } from './config.ts'
import { type Freshness, type IngestDeps, IngestPipeline, type RunningIngest } from './ingest.ts'

/** The cluster's lease: one holder at a time, each with a higher term. */
export interface IndexLease {
  termOf(name: string): number | null
  start(user: {
    wanted(): readonly string[]
    onChanged(name: string): void
    onDeadline(leftMs: number): void
  }): void
}

const leaseName = 'writer'
/** Without a durable write for this long another gateway gets a try. */
const stuckMsMax = 30_000
/** For how long a gateway that was stuck leaves the lease to others. */
const yieldMs = 10_000
const retryMs = 1_000
const unknown: Freshness = { slot: null, slotAgeMs: null, block: null, blockAgeMs: null }

interface Term {
  readonly term: number
  untilMs: number
  pipeline: IngestPipeline | null
}

export async function startLeasedIngest(
  section: IngestSection,
  deps: IngestDeps & { readonly lease: IndexLease },
): Promise<RunningIngest> {
  // The meters are read from both pipelines together.
  const own = { ...deps, meters: { ...deps.meters, watch() {} } }
  const facts = await IngestPipeline.start(section, { ...own, role: 'own facts' })
  const ingest = new LeasedIngest(facts, own, (role) =>
    IngestPipeline.start(section, { ...own, role }),
  )
  deps.meters.watch({
    lagMs: () => ingest.lagMs(),
    unackedBytes: () => ingest.unackedBytes(),
  })
  return ingest
}

class LeasedIngest implements RunningIngest {
  readonly address = null
  readonly #facts: IngestPipeline
  readonly #deps: IngestDeps & { readonly lease: IndexLease }
  readonly #start: (role: { term: number; untilMs(): number }) => Promise<IngestPipeline>
  #current: Term | null = null
  #untilMs = 0
  #yieldsUntilMs = Number.NEGATIVE_INFINITY
  /** The last change of the term; never rejects. */
  #changing: Promise<void> = Promise.resolve()
  #retry: NodeJS.Timeout | null = null
  #stopping: Promise<void> | null = null

  constructor(
    facts: IngestPipeline,
    deps: IngestDeps & { readonly lease: IndexLease },
    start: (role: { term: number; untilMs(): number }) => Promise<IngestPipeline>,
  ) {
    this.#facts = facts
    this.#deps = deps
    this.#start = start
    deps.lease.start({
      wanted: () => (this.#isAble() ? [leaseName] : []),
      onChanged: () => this.#change(),
      onDeadline: (leftMs) => this.#extend(leftMs),
    })
  }

  /** Known at the gateway that writes. */
  freshness(): Freshness {
    return this.#current?.pipeline?.freshness() ?? unknown
  }

  lagMs(): number {
    return Math.max(this.#facts.lagMs(), this.#current?.pipeline?.lagMs() ?? 0)
  }

  unackedBytes(): number {
    return this.#facts.unackedBytes() + (this.#current?.pipeline?.unackedBytes() ?? 0)
  }

  pid(): number {
    return this.#current?.pipeline?.pid() ?? 0
  }

  /** The lease is still renewed while the last rows are written; its owner gives it back then. */
  stop(): Promise<void> {
    this.#stopping ??= (async () => {
      if (this.#retry !== null) clearTimeout(this.#retry)
      await this.#changing
      await Promise.all([this.#current?.pipeline?.stop(), this.#facts.stop()])
    })()
    return this.#stopping
  }

  #isAble(): boolean {
    const nowMs = this.#deps.clock.monotonicMs()
    const stuckMs = this.#current?.pipeline?.stuckMs() ?? 0
    if (stuckMs > stuckMsMax) this.#yieldsUntilMs = nowMs + yieldMs
    return nowMs >= this.#yieldsUntilMs
  }

  #extend(leftMs: number): void {
    this.#untilMs = machineMs() + leftMs
    const current = this.#current
    if (current === null || current.term !== this.#deps.lease.termOf(leaseName)) return
    current.untilMs = this.#untilMs
    current.pipeline?.extend()
  }

  #change(): void {
    this.#changing = this.#changing.then(() => this.#follow())
  }

  /** Ends the pipeline of a term that is over, and starts that of a new one. */
  async #follow(): Promise<void> {
    const { lease, log } = this.#deps
    while (this.#stopping === null && lease.termOf(leaseName) !== (this.#current?.term ?? null)) {
      const ended = this.#current
      const term = lease.termOf(leaseName)
      this.#current = null
      await ended?.pipeline?.abort()
      if (term === null || lease.termOf(leaseName) !== term) continue
      try {
        await this.#begin(term)
      } catch (error) {
        log.area('indexer').warn('index writer did not start', { reason: messageOf(error) })
        this.#current = null
        this.#retry = setTimeout(() => this.#change(), retryMs)
        return
      }
    }
  }

  async #begin(number: number): Promise<void> {
    const begun: Term = { term: number, untilMs: this.#untilMs, pipeline: null }
    this.#current = begun
    begun.pipeline = await this.#start({ term: number, untilMs: () => begun.untilMs })
    this.#deps.log.area('indexer').info('this gateway writes the index', { term: number })
  }
}
