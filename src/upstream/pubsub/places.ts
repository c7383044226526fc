// The sockets to the nodes of one set, and the choice among them. Thread: main. Owned by
// set-relay.ts, which decides what becomes of the wishes.
// The node with the fewest wishes for its weight takes the next one. A node that lets no more
// subscriptions in over one socket gets another; one whose sockets end is left alone for a while.
import type { Clock } from '../../base/clock.ts'
import { type RpcError, rpcErrors } from '../../jsonrpc/build.ts'
import { nodeUnhealthy } from '../ports.ts'
import type { HeldWish } from './held-wish.ts'
import type { PubsubNode, PubsubSet } from './node.ts'
import type { Connect } from './node-socket.ts'
import { NodeSubscriptions, type Owner } from './node-subscriptions.ts'

const BACKOFF_MS_MIN = 100
const BACKOFF_MS_MAX = 5_000
/** A connection that lived so long makes good for those that were lost before it. */
const STEADY_TICKS = 10
const IDLE_TICKS_MAX = 30
const SOCKETS_PER_NODE_MAX = 32
/** Puts a node that is in doubt behind all others. */
const DOUBTFUL = 1e9
const WEIGHT_LEAST = 1e-6

export interface PlacesDeps {
  readonly connect: Connect
  readonly clock: Clock
}

export class Places {
  readonly #set: PubsubSet
  readonly #owner: Owner
  readonly #deps: PlacesDeps
  readonly #sockets = new Map<PubsubNode, NodeSubscriptions[]>()
  readonly #failures = new Map<PubsubNode, { count: number; untilMs: number }>()

  constructor(set: PubsubSet, owner: Owner, deps: PlacesDeps) {
    this.#set = set
    this.#owner = owner
    this.#deps = deps
  }

  /** Every socket there is, also those that are being opened. */
  sockets(): NodeSubscriptions[] {
    return [...this.#sockets.values()].flat()
  }

  at(node: PubsubNode): readonly NodeSubscriptions[] {
    return this.#sockets.get(node) ?? []
  }

  /** What a new wish of that method would be refused with; null when it would not. */
  problem(method: string): RpcError | null {
    const serving = this.#set.nodes.filter((node) => node.has('ws') && node.serves(method))
    if (serving.length === 0) return rpcErrors.unknownMethod
    return serving.some((node) => this.#isOpenTo(node)) ? null : nodeUnhealthy
  }

  get isServing(): boolean {
    return this.#set.nodes.some((node) => this.#isOpenTo(node))
  }

  /** The node that should take it; null when none will do. */
  choose(wish: HeldWish): PubsubNode | null {
    let best: PubsubNode | null = null
    let least = Number.POSITIVE_INFINITY
    for (const node of this.#set.nodes) {
      if (!this.#isOpenTo(node) || !node.serves(wish.method) || wish.refusedBy.has(node)) continue
      const load = this.#loadOf(node)
      if (load >= least || !this.hasRoom(node)) continue
      best = node
      least = load
    }
    return best
  }

  /** A socket of the node with room on it, opened where there is none. */
  socketOf(node: PubsubNode): NodeSubscriptions {
    const sockets = this.#sockets.get(node) ?? []
    const roomy = sockets.find((held) => !held.isFull)
    if (roomy !== undefined) return roomy
    const held = new NodeSubscriptions(node, this.#owner, this.#deps.connect)
    this.#sockets.set(node, [...sockets, held])
    return held
  }

  hasRoom(node: PubsubNode): boolean {
    const sockets = this.at(node)
    return sockets.length < SOCKETS_PER_NODE_MAX || sockets.some((held) => !held.isFull)
  }

  /** Closes it; what it held is the caller's to place anew. */
  close(held: NodeSubscriptions): void {
    this.#take(held)
    held.close()
  }

  /** It is gone by itself: the node is left alone for a while. */
  failed(held: NodeSubscriptions): void {
    const { node } = held
    this.#take(held)
    const nowMs = this.#deps.clock.monotonicMs()
    const { count, untilMs } = this.#failures.get(node) ?? { count: 0, untilMs: 0 }
    // Its other sockets end together with it, and that is one failure.
    if (untilMs > nowMs) return
    const delayMs = Math.min(BACKOFF_MS_MIN * 2 ** count, BACKOFF_MS_MAX)
    // Half of it is chance, so that many of us do not come back at once.
    const chosenMs = delayMs * (0.5 + Math.random() / 2)
    this.#failures.set(node, { count: count + 1, untilMs: nowMs + chosenMs })
  }

  /** Pings, and closes what nobody uses any more. */
  tick(): void {
    for (const held of this.sockets()) {
      held.tick()
      if (held.liveTicks > STEADY_TICKS) this.#failures.delete(held.node)
      if (held.idleTicks > IDLE_TICKS_MAX) this.close(held)
    }
  }

  /** True when its node should not hold anything and another could. */
  isBetterLeft({ node }: NodeSubscriptions): boolean {
    if (!isBad(node)) return false
    return this.#set.nodes.some(
      (other) => other !== node && other.state === 'up' && this.#isOpenTo(other),
    )
  }

  #take(held: NodeSubscriptions): void {
    const others = this.at(held.node).filter((one) => one !== held)
    if (others.length === 0) this.#sockets.delete(held.node)
    else this.#sockets.set(held.node, others)
  }

  #loadOf(node: PubsubNode): number {
    const count = this.at(node).reduce((sum, { wishes }) => sum + wishes.size, 0)
    const load = (count + 1) / Math.max(node.weight, WEIGHT_LEAST)
    return node.state === 'up' ? load : load * DOUBTFUL
  }

  #isOpenTo(node: PubsubNode): boolean {
    if (!node.has('ws') || isBad(node)) return false
    const failed = this.#failures.get(node)
    return failed === undefined || failed.untilMs <= this.#deps.clock.monotonicMs()
  }
}

function isBad({ state }: PubsubNode): boolean {
  return state === 'down' || state === 'lagging'
}
