// Which node of a set to stream from next. Thread: main. Clock passed in; owned by geyser-feed.ts.
// A node that failed is retried with exponential back-off; one that works is kept. Nodes that
// cannot replay what is missing are asked last: only when no other can, a gap is taken.
import { backoffMs } from '../../base/backoff.ts'
import type { Clock } from '../../base/clock.ts'
import type { NodeState } from '../node-health.ts'
import type { UpstreamNode } from '../upstream-node.ts'

const backoff = { firstMs: 250, lastMs: 2_000 }
/** How long the loop waits at most before it looks again. */
const lookMs = 250

interface Rest {
  untilMs: number
  failures: number
  /** It refused from_slot. */
  hasNoReplay: boolean
}

/** A node whose JSON-RPC is down may still stream, and is tried when nobody else is left. */
const order: Readonly<Record<NodeState, number>> = { up: 0, probing: 1, lagging: 2, down: 3 }

export class GeyserRests {
  readonly #nodes: readonly UpstreamNode[]
  readonly #clock: Clock
  readonly #rests = new Map<UpstreamNode, Rest>()

  constructor(nodes: readonly UpstreamNode[], clock: Clock) {
    this.#nodes = nodes.filter((node) => node.has('grpc'))
    this.#clock = clock
    for (const node of this.#nodes)
      this.#rests.set(node, { untilMs: 0, failures: 0, hasNoReplay: false })
  }

  /** The best that does not rest; null when all do. */
  pick(): UpstreamNode | null {
    const nowMs = this.#clock.monotonicMs()
    const ready = this.#nodes.filter((node) => this.#of(node).untilMs <= nowMs)
    const rank = (node: UpstreamNode) =>
      order[node.state] * 2 + (node.weight > 0 ? 0 : 1) + this.#of(node).failures * 0.1
    return ready.sort((a, b) => rank(a) - rank(b) || b.weight - a.weight)[0] ?? null
  }

  /** Milliseconds until one is ready. */
  nextMs(): number {
    const nowMs = this.#clock.monotonicMs()
    const waits = this.#nodes.map((node) => this.#of(node).untilMs - nowMs)
    return Math.max(1, Math.min(lookMs, ...waits))
  }

  /** Whether another could be followed now instead. */
  hasOther(node: UpstreamNode): boolean {
    const nowMs = this.#clock.monotonicMs()
    return this.#nodes.some(
      (other) => other !== node && other.state === 'up' && this.#of(other).untilMs <= nowMs,
    )
  }

  failed(node: UpstreamNode): void {
    const rest = this.#of(node)
    rest.failures++
    rest.untilMs = this.#clock.monotonicMs() + backoffMs(rest.failures, backoff)
  }

  began(node: UpstreamNode): void {
    const rest = this.#of(node)
    rest.failures = 0
    rest.hasNoReplay = false
  }

  hasNoReplay(node: UpstreamNode): void {
    this.#of(node).hasNoReplay = true
  }

  isWithoutReplay(node: UpstreamNode): boolean {
    return this.#of(node).hasNoReplay
  }

  #of(node: UpstreamNode): Rest {
    // Reason for the assertion: every node with a geyser address has one since the start.
    return this.#rests.get(node)!
  }
}
