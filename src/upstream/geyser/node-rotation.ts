// Picks the node of a set to stream from next; no two streams read one node.
// A node that failed is retried with exponential back-off.
import { backoffMs } from '../../base/backoff.ts'
import type { Clock } from '../../base/clock.ts'
import type { NodeState } from '../node-pool/node-health.ts'
import type { UpstreamNode } from '../node-pool/upstream-node.ts'

const backoff = { firstMs: 250, lastMs: 2_000 }
/** Longest wait before the states of the nodes are checked again. */
const pollMs = 250

interface Retry {
  atMs: number
  failures: number
  /** It refused from_slot. */
  hasNoReplay: boolean
  /** A stream reads it. */
  isTaken: boolean
}

/**
 * A node whose JSON-RPC is down may still stream; a drained one only where there is no other. One
 * that is not believed never does.
 */
const order: Readonly<Partial<Record<NodeState, number>>> = {
  up: 0,
  probing: 1,
  lagging: 2,
  down: 3,
  drained: 4,
}
/** Added for a node whose stream was bad while its JSON-RPC was fine. */
const faultRank = 20

export class NodeRotation {
  readonly #nodes: readonly UpstreamNode[]
  readonly #clock: Clock
  readonly #retries = new Map<UpstreamNode, Retry>()

  constructor(nodes: readonly UpstreamNode[], clock: Clock) {
    this.#nodes = nodes.filter((node) => node.has('grpc'))
    this.#clock = clock
    for (const node of this.#nodes)
      this.#retries.set(node, { atMs: 0, failures: 0, hasNoReplay: false, isTaken: false })
  }

  /** Takes the best node that is not backing off, until it has failed; null when there is none. */
  pick(): UpstreamNode | null {
    const nowMs = this.#clock.monotonicMs()
    const isFirst = !this.#nodes.some((node) => this.#of(node).isTaken)
    const ready = this.#nodes.filter(
      (node) =>
        this.#isReady(node, nowMs) &&
        order[node.state] !== undefined &&
        (isFirst || node.state !== 'drained'),
    )
    const rank = (node: UpstreamNode) =>
      order[node.state]! * 2 +
      (node.weight > 0 ? 0 : 1) +
      (node.streamFault === '' ? 0 : faultRank) +
      this.#of(node).failures * 0.1
    const best = ready.sort((a, b) => rank(a) - rank(b) || b.weight - a.weight)[0] ?? null
    if (best !== null) this.#of(best).isTaken = true
    return best
  }

  /** Milliseconds until a node can be retried. */
  nextMs(): number {
    const nowMs = this.#clock.monotonicMs()
    const free = this.#nodes.filter((node) => !this.#of(node).isTaken)
    const waits = free.map((node) => this.#of(node).atMs - nowMs)
    return Math.max(1, Math.min(pollMs, ...waits))
  }

  /** Whether another node is available now. */
  hasOther(node: UpstreamNode): boolean {
    const nowMs = this.#clock.monotonicMs()
    return this.#nodes.some(
      (other) =>
        other !== node &&
        other.state === 'up' &&
        other.streamFault === '' &&
        this.#isReady(other, nowMs),
    )
  }

  failed(node: UpstreamNode): void {
    const retry = this.#of(node)
    retry.isTaken = false
    retry.failures++
    retry.atMs = this.#clock.monotonicMs() + backoffMs(retry.failures, backoff)
  }

  started(node: UpstreamNode): void {
    const retry = this.#of(node)
    retry.failures = 0
    retry.hasNoReplay = false
    node.streamFault = ''
  }

  hasNoReplay(node: UpstreamNode): void {
    this.#of(node).hasNoReplay = true
  }

  isWithoutReplay(node: UpstreamNode): boolean {
    return this.#of(node).hasNoReplay
  }

  #isReady(node: UpstreamNode, nowMs: number): boolean {
    const { isTaken, atMs } = this.#of(node)
    return !isTaken && atMs <= nowMs
  }

  #of(node: UpstreamNode): Retry {
    // Reason for the assertion: the constructor adds every node with a geyser address.
    return this.#retries.get(node)!
  }
}
