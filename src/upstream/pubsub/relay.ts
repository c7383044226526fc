// PubSub at the nodes of all upstream sets. Thread: main. Started by the topology and handed to the
// websocket door as `PubsubRelay`. Each set is on its own: nothing goes from one to another.
import type { Clock } from '../../base/clock.ts'
import type { RpcError } from '../../jsonrpc/build.ts'
import type { Log } from '../../telemetry/log.ts'
import {
  nodeUnhealthy,
  type PubsubListener,
  type PubsubRelay,
  type PubsubSubscription,
  type PubsubWish,
} from '../ports.ts'
import { methodOf } from './held-wish.ts'
import type { PubsubNode, PubsubSet } from './node.ts'
import { type Connect, connectNode } from './node-socket.ts'
import { type NodePubsub, SetRelay } from './set-relay.ts'

/** All sets; upstreams.ts fits. */
export interface PubsubSets {
  sets(): readonly PubsubSet[]
  /** Tells of every change of a node's state. */
  watch(watcher: (node: PubsubNode) => void): () => void
}

export interface UpstreamPubsubDeps {
  readonly clock: Clock
  readonly log: Log
  /** How a node is connected to; a test has its own way. */
  readonly connect?: Connect
}

const TICK_MS = 1_000

export class UpstreamPubsub implements PubsubRelay {
  readonly #sets: ReadonlyMap<string, PubsubSet>
  readonly #relays: ReadonlyMap<string, SetRelay>
  readonly #unwatch: () => void
  readonly #ticker: NodeJS.Timeout

  constructor(upstreams: PubsubSets, { clock, log, connect = connectNode }: UpstreamPubsubDeps) {
    const deps = { clock, log: log.area('upstream'), connect }
    this.#sets = new Map(upstreams.sets().map((set) => [set.name, set]))
    this.#relays = new Map([...this.#sets].map(([name, set]) => [name, new SetRelay(set, deps)]))
    this.#unwatch = upstreams.watch(() => {
      for (const relay of this.#relays.values()) relay.review()
    })
    this.#ticker = setInterval(() => {
      // Behind what the sockets brought in this turn: a stall of our own is no silence of theirs.
      setImmediate(() => {
        for (const relay of this.#relays.values()) relay.tick()
      })
    }, TICK_MS).unref()
  }

  /** By the name of the set. */
  get relays(): ReadonlyMap<string, SetRelay> {
    return this.#relays
  }

  problem({ set, topic }: Pick<PubsubWish, 'set' | 'topic'>): RpcError | null {
    const relay = this.#relays.get(set)
    return relay === undefined ? nodeUnhealthy : relay.problem(methodOf(topic))
  }

  subscribe(wish: PubsubWish, listener: PubsubListener): PubsubSubscription {
    const relay = this.#relays.get(wish.set)
    if (relay === undefined) {
      queueMicrotask(() => listener.refused(nodeUnhealthy))
      return { close() {} }
    }
    const held = relay.add(wish, listener)
    return { close: () => relay.close(held) }
  }

  /** For a node's row in the status, by its name; null for one without PubSub. */
  at(name: string): NodePubsub | null {
    for (const [set, { nodes }] of this.#sets) {
      const node = nodes.find((one) => one.name === name)
      if (node?.has('ws')) return this.#relays.get(set)!.at(node)
    }
    return null
  }

  stop(): void {
    clearInterval(this.#ticker)
    this.#unwatch()
    for (const relay of this.#relays.values()) relay.stop()
  }
}
