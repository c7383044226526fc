// All sets of nodes, and the timer that probes them.
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/telemetry/log.ts'
import type { SetSection, UpstreamsSection } from '../config.ts'
import { type NodeReport, reportNodes } from './node-report.ts'
import { UpstreamSet } from './upstream-set.ts'

/** How often probes are checked; each is sent once per slot. */
const tickMs = 100
/** How long the start waits for the first probes. */
const firstProbeMsMax = 1_500

export interface UpstreamsDeps {
  readonly clock: Clock
  readonly log: Log
  readonly random?: () => number
}

export class Upstreams {
  readonly #sets: ReadonlyMap<string, UpstreamSet>
  #timer: NodeJS.Timeout | null = null

  constructor(section: UpstreamsSection, deps: UpstreamsDeps) {
    const log = deps.log.area('upstream')
    const make = ([name, set]: [string, SetSection]) =>
      [name, new UpstreamSet(name, set, { ...deps, log })] as const
    this.#sets = new Map(Object.entries(section).map(make))
  }

  /** The set of that name; null when there is no such set. */
  set(name: string): UpstreamSet | null {
    return this.#sets.get(name) ?? null
  }

  sets(): readonly UpstreamSet[] {
    return [...this.#sets.values()]
  }

  /** Probes every node once before the endpoints open, then periodically. */
  async start(): Promise<void> {
    const probes = this.sets().flatMap((set) => set.probes)
    let timer: NodeJS.Timeout | undefined
    const bound = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, firstProbeMsMax)
    })
    await Promise.race([Promise.all(probes.map((probe) => probe.probe())), bound])
    clearTimeout(timer)
    // Timers run before what the sockets brought in the same turn of the event loop: after a stall
    // of our own, a response that is already here must not count as silence of the node.
    this.#timer = setInterval(() => setImmediate(() => this.tick()), tickMs).unref()
  }

  /** Checks every probe. */
  tick(): void {
    for (const set of this.#sets.values()) for (const probe of set.probes) probe.tick()
  }

  /** A row per node, by set and number. */
  report(): NodeReport[] {
    return this.sets().flatMap((set) => reportNodes(set.nodes))
  }

  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
    for (const set of this.sets()) set.stop()
  }
}
