// Holds the wishes of one upstream set at its nodes: the node with the fewest takes a new one, and
// when a node is lost, what it held goes to the others. Thread: main. Made by relay.ts.
//
//   add ─► place: good node with the fewest ─► asked ─► taken ─► notices
//             ▲  └─ none: a new wish is refused (-32005), an old one waits
//             └──── node lost, silent or no longer good ──► again, then recovery.ts
import type { RpcError } from '../../jsonrpc/build.ts'
import { type Log, LogThrottle } from '../../telemetry/log.ts'
import { nodeUnhealthy, type PubsubListener, type PubsubWish } from '../ports.ts'
import { askNode } from './ask-node.ts'
import { HeldWish } from './held-wish.ts'
import type { PubsubNode, PubsubSet } from './node.ts'
import type { Loss } from './node-socket.ts'
import type { NodeSubscriptions, Owner } from './node-subscriptions.ts'
import { Places, type PlacesDeps } from './places.ts'
import { Recovery } from './recovery.ts'

/** A new wish that no node has answered by then is refused. */
const OPENING_MS_MAX = 10_000
/** Between looks at wishes that wait for a node. */
const WAITING_MS = 100
/** A wish that every node refuses is tried again after this. */
const REFUSED_REST_MS = 5_000
/** Out of allowance: of the token, or of subscriptions on one connection. */
const EXHAUSTED = -32429
/** "Not now": another node may say otherwise. */
const notNow: ReadonlySet<number> = new Set([nodeUnhealthy.code, EXHAUSTED])

export interface SetRelayDeps extends PlacesDeps {
  readonly log: Log
}

/** What a node's row in the status says of its PubSub. */
export interface NodePubsub {
  readonly connected: boolean
  readonly subscriptions: number
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
  readonly #deps: SetRelayDeps
  readonly #places: Places
  readonly #held = new Map<HeldWish, NodeSubscriptions>()
  /** Those that no node has taken yet, the oldest first; and those that wait for a node. */
  readonly #opening = new Set<HeldWish>()
  readonly #waiting = new Set<HeldWish>()
  readonly #recovery: Recovery
  readonly #throttle = new LogThrottle()
  #waiter: NodeJS.Timeout | null = null
  #isStopped = false

  constructor(set: PubsubSet, deps: SetRelayDeps) {
    this.#deps = deps
    this.#places = new Places(set, this, deps)
    this.#recovery = new Recovery({
      ask: (method, params, options) => askNode(set.choose(method, options), method, params),
      tell: (wish, result) => this.#tell(wish, result, false),
      tally: this.tally,
    })
  }

  /** What a new wish of that method would be refused with; null when it would not. */
  problem(method: string): RpcError | null {
    return this.#places.problem(method)
  }

  /** Subscriptions that nodes have taken, and the connections they are held over. */
  get count(): number {
    return countOf(this.#places.sockets())
  }
  get connections(): number {
    return this.#places.sockets().filter(({ isConnected }) => isConnected).length
  }

  /** The same of one node, for its row in the status. */
  at(node: PubsubNode): NodePubsub {
    const sockets = this.#places.at(node)
    const connected = sockets.some(({ isConnected }) => isConnected)
    return { connected, subscriptions: countOf(sockets) }
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
    this.#held.get(wish)?.remove(wish)
    this.#forget(wish)
  }

  /** Leaves nodes that have become bad; called when a node's state changed. */
  review(): void {
    for (const held of this.#places.sockets())
      if (this.#places.isBetterLeft(held)) {
        this.#places.close(held)
        this.#moveFrom(held)
      }
  }

  /** Once a second. */
  tick(): void {
    this.#places.tick()
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
    for (const held of this.#places.sockets()) this.#places.close(held)
    for (const wishes of [this.#held, this.#opening, this.#waiting]) wishes.clear()
  }

  taken(wish: HeldWish): void {
    this.#opening.delete(wish)
    if (!wish.taken()) return
    this.tally.resubscribed++
    this.#recovery.moved(wish)
  }

  refused(wish: HeldWish, held: NodeSubscriptions, error: RpcError): void {
    this.#held.delete(wish)
    // Where others have a place on the socket, it may be the socket that is full, not the node.
    if (error.code === EXHAUSTED && held.count > 0) held.fullAt = held.count
    if (!held.isFull || !this.#places.hasRoom(held.node)) wish.refusedBy.add(held.node)
    const isOver = !notNow.has(error.code) || this.#places.choose(wish) === null
    if (!wish.isOpened && isOver) this.#refuse(wish, error)
    else this.#place(wish)
  }

  notice(wish: HeldWish, result: string): void {
    this.tally.notices++
    this.#tell(wish, result, true)
  }

  lost(held: NodeSubscriptions, loss: Loss): void {
    const { name: node } = held.node
    this.#places.failed(held)
    if (this.#throttle.allows(node, this.#deps.clock.monotonicMs()))
      this.#deps.log.warn('a PubSub connection is lost', { node, reason: loss })
    this.#moveFrom(held)
  }

  /** `isNode` when the node said it, and has ended what ends with it. */
  #tell(wish: HeldWish, result: string, isNode: boolean): void {
    if (!wish.tell(result)) return
    this.#held.get(wish)?.remove(wish, isNode)
    this.#forget(wish)
  }

  #forget(wish: HeldWish): void {
    for (const wishes of [this.#held, this.#opening, this.#waiting]) wishes.delete(wish)
  }

  #refuse(wish: HeldWish, error: RpcError): void {
    this.close(wish)
    wish.refuse(error)
  }

  /** Its socket is gone; what it held goes elsewhere. */
  #moveFrom(held: NodeSubscriptions): void {
    if (held.wishes.size > 0) this.tally.reconnects++
    for (const wish of [...held.wishes]) {
      this.#held.delete(wish)
      this.#place(wish)
    }
  }

  #place(wish: HeldWish): void {
    if (this.#isStopped) return
    const node = this.#places.choose(wish)
    if (node === null) {
      if (wish.isOpened) this.#wait(wish)
      else this.#refuse(wish, this.problem(wish.method) ?? nodeUnhealthy)
      return
    }
    const held = this.#places.socketOf(node)
    this.#held.set(wish, held)
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
    if (this.#places.isServing)
      for (const wish of [...this.#waiting]) {
        if (wish.restUntilMs > nowMs) continue
        this.#waiting.delete(wish)
        this.#place(wish)
      }
    if (this.#waiting.size > 0)
      this.#waiter ??= setTimeout(() => this.#placeWaiting(), WAITING_MS).unref()
  }
}

function countOf(sockets: readonly NodeSubscriptions[]): number {
  return sockets.reduce((sum, { count }) => sum + count, 0)
}
