// Meters of the upstream nodes, read from them at scrape.
// The labels are a set's name and a node's number, never an address or a token.
import type { Meters } from '../../base/telemetry/meters.ts'
import { latencyBuckets } from '../../base/telemetry/meters.ts'
import { callOutcomes, type UpstreamNode } from './upstream-node.ts'
import type { Upstreams } from './upstreams.ts'

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
  gauge('sluice_upstream_slot', 'Last slot that the node processed', (node) => node.slot())
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
