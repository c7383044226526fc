// What the relay asks of a node and of a set; upstream-node.ts and upstream-set.ts fit.
// Thread: any (types only).
import type { AnswerListener, CallOptions, NodeCall } from '../node-call.ts'
import type { NodeState } from '../node-health.ts'
import type { NodeAddresses } from '../node-secrets.ts'

export interface PubsubNode {
  /** `<set>/<number>`: the only name it ever has outside. */
  readonly name: string
  readonly weight: number
  readonly state: NodeState
  readonly addresses: NodeAddresses & { readonly ws: string; readonly xToken: string }
  has(way: 'ws'): boolean
  serves(method: string): boolean
  call(body: string, options: CallOptions, listener: AnswerListener): NodeCall
}

export interface PubsubSet {
  readonly name: string
  readonly nodes: readonly PubsubNode[]
  /** A node to ask by JSON-RPC; null when none is good. */
  choose(method: string, options?: { readonly minContextSlot?: number }): PubsubNode | null
}
