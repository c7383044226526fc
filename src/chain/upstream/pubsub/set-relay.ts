// Holds the wishes of one upstream set at its nodes: the node with the fewest takes a new one, and
// when a node is lost, what it held goes to the others. Thread: main. Made by relay.ts.
//
//   add ─► place: good node with the fewest ─► asked ─► taken ─► notices
//             ▲  └─ none: a new wish is refused (-32005), an old one waits
//             └──── node lost, silent or no longer good ──► again, then recovery.ts
import type { Clock } from '../../../base/clock.ts'
import { type RpcError, rpcErrors } from '../../../jsonrpc/build.ts'
import { type Log, LogThrottle } from '../../../telemetry/log.ts'
import { nodeUnhealthy, type PubsubListener, type PubsubWish } from '../../ports.ts'
import { askNode } from './ask-node.ts'
import { HeldWish } from './held-wish.ts'
import type { PubsubNode, PubsubSet } from './node.ts'
import type { Connect, Loss } from './node-socket.ts'
import { NodeSubscriptions, type Owner } from './node-subscriptions.ts'
import { Recovery } from './recovery.ts'

/** A new wish that no node has answered by then is refused. */
const OPENING_MS_MAX = 10_000
const BACKOFF_MS_MIN = 100
const BACKOFF_MS_MAX = 5_000
/** A connection that lived so long makes good for those that were lost before it. */
const STEADY_TICKS = 10
/** Between looks at wishes that wait for a node. */
const WAITING_MS = 100
/** A wish that every node refuses is tried again after this. */
const REFUSED_REST_MS = 5_000
const IDLE_TICKS_MAX = 30
/** "Not now": another node may say otherwise. Behind, or out of allowance. */
const notNow: ReadonlySet<number> = new Set([-32005, -32429])

export interface SetRelayDeps {
  readonly connect: Connect
  readonly clock: Clock
  readonly log: Log
}

export interface RelayTally {
  notices: number
  /** Sockets that were lost while something was held there. */
  reconnects: number
  resubscribed: number
  resent: number
  rechecked: number
}

export class SetRelay implements Owner {
  readonly tally: RelayTally = {
    notices: 0,
    reconnects: 0,
    resubscribed: 0,
    resent: 0,
    rechecked: 0,
  }
  readonly #set: PubsubSet
  readonly #deps: SetRelayDeps
  readonly #held = new Map<PubsubNode, NodeSubscriptions>()
  readonly #places = new Map<HeldWish, NodeSubscriptions>()
  /** Those that no node has taken yet, the oldest first; and those that wait for a node. */
  readonly #opening = new Set<HeldWish>()
  readonly #waiting = new Set<HeldWish>()
  readonly #failures = new Map<PubsubNode, { count: number; untilMs: number }>()
  readonly #recovery: Recovery
  readonly #throttle = new LogThrottle()
  #waiter: NodeJS.Timeout | null = null
  #isStopped = false

  constructor(set: PubsubSet, deps: SetRelayDeps) {
    this.#set = set
    this.#deps = deps
    this.#recovery = new Recovery({
      ask: (method, params, options) => askNode(set.choose(method, options), method, params),
      tell: (wish, result) => this.#tell(wish, result, false),
      tally: this.tally,
    })
  }

  /** What a new wish of that method would be refused with; null when it would not. */
  problem(method: string): RpcError | null {
    const serving = this.#set.nodes.filter((node) => node.has('ws') && node.serves(method))
    if (serving.length === 0) return rpcErrors.unknownMethod
    return serving.some((node) => this.#isOpenTo(node)) ? null : nodeUnhealthy
  }

  /** Subscriptions that nodes have taken. */
  get count(): number {
    let count = 0
    for (const held of this.#held.values()) count += held.count
    return count
  }

  /** Connected and how many are held, of a node. */
  at(node: PubsubNode): { readonly connected: boolean; readonly subscriptions: number } {
    const held = this.#held.get(node)
    return { connected: held?.isConnected ?? false, subscriptions: held?.count ?? 0 }
  }

  add(wish: PubsubWish, listener: PubsubListener): HeldWish {
    const held = new HeldWish(wish, listener, this.#deps.clock.monotonicMs())
    this.#opening.add(held)
    // The caller does not know it by name before this returns.
    queueMicrotask(() => {
      if (!held.isOver) this.#place(held)
    })
    return held
  }

  close(wish: HeldWish): void {
    wish.isOver = true
    this.#places.get(wish)?.remove(wish)
    this.#forget(wish)
  }

  /** Once a second, and when a node's state changed. */
  review(): void {
    for (const held of [...this.#held.values()])
      if (isBad(held.node) && this.#hasBetter(held.node)) this.#drop(held)
  }

  tick(): void {
    for (const held of [...this.#held.values()]) {
      held.tick()
      if (held.liveTicks > STEADY_TICKS) this.#failures.delete(held.node)
      if (held.idleTicks > IDLE_TICKS_MAX && this.#held.get(held.node) === held) this.#drop(held)
    }
    this.review()
    const bornBeforeMs = this.#deps.clock.monotonicMs() - OPENING_MS_MAX
    for (const wish of this.#opening) {
      if (wish.bornMs >= bornBeforeMs) break
      this.#refuse(wish, nodeUnhealthy)
    }
  }

  stop(): void {
    this.#isStopped = true
    if (this.#waiter !== null) clearTimeout(this.#waiter)
    this.#recovery.stop()
    for (const held of this.#held.values()) held.close()
    this.#held.clear()
    for (const wishes of [this.#places, this.#opening, this.#waiting]) wishes.clear()
  }

  taken(wish: HeldWish): void {
    this.#opening.delete(wish)
    if (!wish.taken()) return
    this.tally.resubscribed++
    this.#recovery.moved(wish)
  }

  refused(wish: HeldWish, node: PubsubNode, error: RpcError): void {
    wish.refusedBy.add(node)
    this.#places.delete(wish)
    const isFinal = !wish.isOpened && !notNow.has(error.code)
    if (isFinal || (!wish.isOpened && this.#choose(wish) === null)) this.#refuse(wish, error)
    else this.#place(wish)
  }

  notice(wish: HeldWish, result: string): void {
    this.tally.notices++
    this.#tell(wish, result, true)
  }

  lost(held: NodeSubscriptions, loss: Loss): void {
    const { node } = held
    this.#held.delete(node)
    const { count } = this.#failures.get(node) ?? { count: 0 }
    // Half of it is chance, so that many of us do not come back at once.
    const delayMs = Math.min(BACKOFF_MS_MIN * 2 ** count, BACKOFF_MS_MAX)
    const untilMs = this.#deps.clock.monotonicMs() + delayMs * (0.5 + Math.random() / 2)
    this.#failures.set(node, { count: count + 1, untilMs })
    if (this.#throttle.allows(node.name, this.#deps.clock.monotonicMs()))
      this.#deps.log.warn('a PubSub connection is lost', { node: node.name, reason: loss })
    if (held.wishes.size > 0) this.tally.reconnects++
    this.#placeAll(held.wishes)
  }

  /** `isNode` when the node said it, and has ended what ends with it. */
  #tell(wish: HeldWish, result: string, isNode: boolean): void {
    if (!wish.tell(result)) return
    this.#places.get(wish)?.remove(wish, isNode)
    this.#forget(wish)
  }

  #forget(wish: HeldWish): void {
    for (const wishes of [this.#places, this.#opening, this.#waiting]) wishes.delete(wish)
  }

  #refuse(wish: HeldWish, error: RpcError): void {
    this.close(wish)
    wish.refuse(error)
  }

  #drop(held: NodeSubscriptions): void {
    this.#held.delete(held.node)
    held.close()
    if (held.wishes.size > 0) this.tally.reconnects++
    this.#placeAll(held.wishes)
  }

  #placeAll(wishes: ReadonlySet<HeldWish>): void {
    for (const wish of [...wishes]) {
      this.#places.delete(wish)
      this.#place(wish)
    }
  }

  #place(wish: HeldWish): void {
    if (this.#isStopped) return
    const node = this.#choose(wish)
    if (node === null) {
      if (wish.isOpened) this.#wait(wish)
      else this.#refuse(wish, this.problem(wish.method) ?? nodeUnhealthy)
      return
    }
    let held = this.#held.get(node)
    if (held === undefined) {
      held = new NodeSubscriptions(node, this, this.#deps.connect)
      this.#held.set(node, held)
    }
    this.#places.set(wish, held)
    held.add(wish)
  }

  /** Nobody is told: the customers' connections stay, and so does the wish. */
  #wait(wish: HeldWish): void {
    if (wish.refusedBy.size > 0) {
      wish.refusedBy.clear()
      wish.restUntilMs = this.#deps.clock.monotonicMs() + REFUSED_REST_MS
    }
    this.#waiting.add(wish)
    this.#waiter ??= setTimeout(() => this.#placeWaiting(), WAITING_MS).unref()
  }

  #placeWaiting(): void {
    this.#waiter = null
    const nowMs = this.#deps.clock.monotonicMs()
    if (this.#set.nodes.some((node) => this.#isOpenTo(node)))
      for (const wish of [...this.#waiting]) {
        if (wish.restUntilMs > nowMs) continue
        this.#waiting.delete(wish)
        this.#place(wish)
      }
    if (this.#waiting.size > 0)
      this.#waiter ??= setTimeout(() => this.#placeWaiting(), WAITING_MS).unref()
  }

  #choose(wish: HeldWish): PubsubNode | null {
    let best: PubsubNode | null = null
    let least = Number.POSITIVE_INFINITY
    for (const node of this.#set.nodes) {
      if (!this.#isOpenTo(node) || !node.serves(wish.method) || wish.refusedBy.has(node)) continue
      const load = this.#loadOf(node)
      if (best !== null && load >= least) continue
      best = node
      least = load
    }
    return best
  }

  /** Nodes that are in doubt, or without weight, come after all others. */
  #loadOf(node: PubsubNode): number {
    const count = this.#held.get(node)?.wishes.size ?? 0
    const load = (count + 1) / Math.max(node.weight, 1e-6)
    return node.state === 'up' ? load : load * 1e9
  }

  #isOpenTo(node: PubsubNode): boolean {
    if (!node.has('ws') || isBad(node)) return false
    const failed = this.#failures.get(node)
    return failed === undefined || failed.untilMs <= this.#deps.clock.monotonicMs()
  }

  #hasBetter(than: PubsubNode): boolean {
    const isBetter = (node: PubsubNode) => node.state === 'up' && this.#isOpenTo(node)
    return this.#set.nodes.some((node) => node !== than && isBetter(node))
  }
}

function isBad({ state }: PubsubNode): boolean {
  return state === 'down' || state === 'lagging'
}
