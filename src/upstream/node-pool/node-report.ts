// Status of a node for the operator: one row of plain values without an address.
import { Commitment } from '../../base/commitment.ts'
import type { UpstreamNode } from './upstream-node.ts'

export type NodeReport = ReturnType<typeof reportOf>

/** A row per node, in the order of the configuration. */
export function reportNodes(nodes: readonly UpstreamNode[]): NodeReport[] {
  const counts = nodes.map((node) => node.latency.count(node.nowMs()))
  const total = counts.reduce((sum, count) => sum + count, 0)
  return nodes.map((node, index) => reportOf(node, total === 0 ? 0 : counts[index]! / total))
}

/** `share` is its fraction of the set's calls of the last minute, 0 to 1. */
function reportOf(node: UpstreamNode, share: number) {
  const nowMs = node.nowMs()
  const { ok, limited, aborted, left, ...failed } = node.outcomes
  const errors = Object.values(failed).reduce((sum, count) => sum + count, 0)
  return {
    name: node.name,
    region: node.region,
    state: node.state,
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
