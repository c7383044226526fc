// Meters of the upstream nodes, read from them at scrape.
// The labels are a set's name and a node's number, never an address or a token.
import type { Meters } from '../../base/telemetry/meters.ts'
import { latencyBuckets } from '../../base/telemetry/meters.ts'
import { nodeStates } from './node-health.ts'
import { callOutcomes, type UpstreamNode, wrongs } from './upstream-node.ts'
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
