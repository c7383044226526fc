// All sets of nodes and the clock that probes them. Thread: main. Started by the topology.
import type { Clock } from '../base/clock.ts'
import type { Log } from '../telemetry/log.ts'
import type { SetSection, UpstreamsSection } from './config.ts'
import type { NodeReport } from './upstream-node.ts'
import { UpstreamSet } from './upstream-set.ts'

/** How often probes are looked at; each is sent once per slot. */
const turnMs = 100
/** How long the start waits for the first word of the nodes. */
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

  /** The set of that name; null when there is none. */
  set(name: string): UpstreamSet | null {
    return this.#sets.get(name) ?? null
  }

  sets(): readonly UpstreamSet[] {
    return [...this.#sets.values()]
  }

  /** Asks every node once, so that the doors open knowing them, and goes on asking. */
  async start(): Promise<void> {
    const probes = this.sets().flatMap((set) => set.probes)
    let timer: NodeJS.Timeout | undefined
    const bound = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, firstProbeMsMax)
    })
    await Promise.race([Promise.all(probes.map((probe) => probe.ask())), bound])
    clearTimeout(timer)
    // Timers run before what the sockets brought in the same turn of the loop: an answer that is
    // already here must not count as silence after a stall of our own.
    const turn = () => setImmediate(() => this.turn())
    this.#timer = setInterval(turn, turnMs).unref()
  }

  /** Looks at every probe; the timer's work. */
  turn(): void {
    for (const set of this.#sets.values()) for (const probe of set.probes) probe.turn()
  }

  /** A row per node, by set and number. */
  report(): NodeReport[] {
    return this.sets().flatMap((set) => set.report())
  }

  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
    await Promise.all(this.sets().map((set) => set.stop()))
  }
}
