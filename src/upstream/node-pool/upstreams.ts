// All sets of nodes, and the timer that probes them.
import { Commitment } from '../../base/commitment.ts'
import { latencyBuckets, type Meters } from '../../base/telemetry/meters.ts'
import type { SetSection, UpstreamsSection } from '../config.ts'
import { nodeStates } from './node-health.ts'
import { callOutcomes, type UpstreamNode, wrongs } from './upstream-node.ts'
import { type SetDeps, UpstreamSet } from './upstream-set.ts'

/** How often probes are checked; each is sent once per slot. */
const tickMs = 100
/** How long the start waits for the first probes. */
const firstProbeMsMax = 1_500

export class Upstreams {
  readonly #sets: ReadonlyMap<string, UpstreamSet>
  #timer: NodeJS.Timeout | null = null

  constructor(section: UpstreamsSection, deps: SetDeps) {
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

  /** The node of a name, such as default/1; null when there is no such node. */
  node(name: string): UpstreamNode | null {
    for (const { nodes } of this.sets()) {
      const found = nodes.find((node) => node.name === name)
      if (found !== undefined) return found
    }
    return null
  }

  /** A row per node, by set and number. */
  report(): NodeReport[] {
    return this.sets().flatMap(({ nodes }) => {
      const counts = nodes.map((node) => node.latency.count(node.nowMs()))
      const total = counts.reduce((sum, count) => sum + count, 0)
      return nodes.map((node, index) => reportOf(node, total === 0 ? 0 : counts[index]! / total))
    })
  }

  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
    for (const set of this.sets()) set.stop()
  }
}

// Status of a node for the operator: one row of plain values without an address.

type NodeReport = ReturnType<typeof reportOf>

/** `share` is its fraction of the set's calls of the last minute, 0 to 1. */
function reportOf(node: UpstreamNode, share: number) {
  const nowMs = node.nowMs()
  const { ok, limited, aborted, left, ...failed } = node.outcomes
  const errors = Object.values(failed).reduce((sum, count) => sum + count, 0)
  return {
    name: node.name,
    region: node.region,
    state: node.state,
    reason: node.reason,
    ways: (['rpc', 'ws', 'grpc'] as const).filter((endpoint) => node.has(endpoint)),
    slot: node.slot(),
    finalizedSlot: node.slot(Commitment.finalized),
    lagSlots: node.lagSlots,
    genesis: node.genesis,
    p50Ms: rounded(node.latency.percentile(0.5, nowMs)),
    p99Ms: rounded(node.latency.percentile(0.99, nowMs)),
    requests: ok + limited + aborted + left + errors,
    errors: errors + limited,
    share: Math.round(share * 1000) / 1000,
    waiting: node.waiting,
  }
}

function rounded(ms: number | null): number | null {
  return ms === null ? null : Math.round(ms * 100) / 100
}

// Meters of the upstream nodes, read from them at scrape.
// The labels are a set's name and a node's number, never an address or a token.

export function declareUpstreamMeters(meters: Meters, upstreams: Upstreams): void {
  const nodes = () => upstreams.sets().flatMap((set) => set.nodes)
  // The sets are the configuration's; a meter without series is declared all the same.
  const labels = { set: [] as string[], node: [] as string[] }
  const gauge = (name: string, help: string, read: (node: UpstreamNode) => number | null) =>
    meters.gaugesRead(name, help, labels, function* () {
      for (const node of nodes()) {
        const value = read(node)
        if (value !== null) yield [labelsOf(node), value]
      }
    })
  meters.gaugesRead(
    'sluice_upstream_info',
    'The nodes and their regions',
    { ...labels, region: [] as string[] },
    function* () {
      for (const node of nodes()) yield [{ ...labelsOf(node), region: node.region }, 1]
    },
  )
  gauge('sluice_upstream_up', 'Whether the node is in the rotation', (node) =>
    node.state === 'up' ? 1 : 0,
  )
  meters.gaugesRead(
    'sluice_upstream_state',
    'State of the node: 1 for the one that it is in',
    { ...labels, state: nodeStates },
    function* () {
      for (const node of nodes()) yield [{ ...labelsOf(node), state: node.state }, 1]
    },
  )
  gauge('sluice_upstream_slot', 'Highest slot that the node has reported', (node) => node.slot())
  gauge('sluice_upstream_lag_slots', 'Slots behind the best of its set', (node) => node.lagSlots)
  gauge('sluice_upstream_waiting', 'Calls that wait for a response', (node) => node.waiting)
  meters.counterRead(
    'sluice_upstream_requests_total',
    'Calls to the node by how they ended',
    { ...labels, outcome: callOutcomes },
    function* () {
      for (const node of nodes())
        for (const outcome of callOutcomes)
          yield [{ ...labelsOf(node), outcome }, node.outcomes[outcome]]
    },
  )
  meters.counterRead(
    'sluice_upstream_wrong_total',
    'Answers or blocks of the node that cannot be right, by what is wrong',
    { ...labels, reason: wrongs },
    function* () {
      for (const node of nodes())
        for (const reason of wrongs) yield [{ ...labelsOf(node), reason }, node.wrongs[reason]]
    },
  )
  meters.counterRead(
    'sluice_upstream_probe_failures_total',
    'Probes of the node that failed or stayed unanswered',
    labels,
    function* () {
      for (const node of nodes()) yield [labelsOf(node), node.probeFailures]
    },
  )
  meters.histogramsRead(
    'sluice_upstream_seconds',
    "Time to the head of the node's answer",
    latencyBuckets,
    labels,
    function* () {
      for (const node of nodes()) yield [labelsOf(node), node.seconds.read()]
    },
  )
}

function labelsOf({ set, number }: UpstreamNode): { set: string; node: string } {
  return { set, node: String(number) }
}
