// Status of a node for the operator: one row of plain values without an address. Thread: main.
import { Commitment } from '../../base/commitment.ts'
import type { NodeState } from './node-health.ts'
import type { NodeEndpoint, UpstreamNode } from './upstream-node.ts'

export interface NodeReport {
  readonly name: string
  readonly region: string
  readonly state: NodeState
  readonly ways: readonly NodeEndpoint[]
  readonly slot: number | null
  readonly finalizedSlot: number | null
  readonly lagSlots: number | null
  readonly p50Ms: number | null
  readonly p99Ms: number | null
  readonly requests: number
  readonly errors: number
  /** Share of its set's calls of the last minute, 0 to 1. */
  readonly share: number
  readonly waiting: number
}

/** A row per node, in the order of the configuration. */
export function reportNodes(nodes: readonly UpstreamNode[]): NodeReport[] {
  const counts = nodes.map((node) => node.latency.count(node.nowMs()))
  const total = counts.reduce((sum, count) => sum + count, 0)
  return nodes.map((node, index) => reportOf(node, total === 0 ? 0 : counts[index]! / total))
}

function reportOf(node: UpstreamNode, share: number): NodeReport {
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
