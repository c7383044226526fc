// Solana PubSub: the subscriptions of the websocket door. Thread: main.
// Started by server.ts; knows no socket, only sessions and a function that publishes.
//
//   message -> methods -> engine of the connection's subscription: hub (own chain) or relay (set)
//           -> registry -> feed of that wish, shared by all who have it
//   engine  -> result of a feed -> outbox: text once -> published to all subscribers
import type { Clock } from '../../base/clock.ts'
import type { MethodTable } from '../../jsonrpc/methods.ts'
import type { Engine } from '../../pubsub/engine.ts'
import type { Publish } from '../../pubsub/feed.ts'
import { HubSubscriptions, type Subscribed } from '../../pubsub/hub-subscriptions.ts'
import type { SubscriptionMeters } from '../../pubsub/meters.ts'
import { subscriptionMethods } from '../../pubsub/methods.ts'
import { Outbox } from '../../pubsub/outbox.ts'
import { Ids } from '../../pubsub/registry.ts'
import type { Subscription } from '../../subscriptions/subscription.ts'
import type { Log } from '../../telemetry/log.ts'
import type { PubsubRelay } from '../../upstream/ports.ts'
import type { Session } from './handle.ts'
import { RelaySubscriptions } from './relay-subscriptions.ts'

/** Where the subscriptions of upstream customers go. */
export interface Relayed {
  readonly relay: PubsubRelay
  /** The upstream set that serves a subscription; null is our own chain. */
  setOf(subscription: Subscription): string | null
}

export interface SubscriptionsDeps {
  /** Null where there is no chain of our own. */
  readonly solana: Subscribed | null
  /** Null where there are no upstream sets. */
  readonly relayed: Relayed | null
  readonly meters: SubscriptionMeters
  readonly clock: Clock
  readonly log: Log
}

export class Subscriptions {
  readonly methods: MethodTable<Session>
  readonly #outbox: Outbox
  readonly #ids = new Ids()
  readonly #relayed: Relayed | null
  readonly #local: Engine | null
  /** By the name of the set: only configured sets are ever named. */
  readonly #bySet = new Map<string, Engine>()

  constructor({ solana, relayed, meters, clock, log }: SubscriptionsDeps) {
    const outbox = new Outbox(meters, clock)
    const ids = this.#ids
    this.#outbox = outbox
    this.#relayed = relayed
    this.#local = solana && new HubSubscriptions({ ...solana, ids, outbox, meters, clock, log })
    this.methods = subscriptionMethods((session) => this.#engineOf(session))
    meters.subscriptions = () => this.#counts()
  }

  usePublisher(publish: Publish): void {
    this.#outbox.usePublisher(publish)
  }

  stop(): void {
    for (const engine of this.#engines()) engine.stop()
    this.#outbox.stop()
  }

  #engineOf({ subscription }: Session): Engine | null {
    const relayed = this.#relayed
    const set = relayed?.setOf(subscription) ?? null
    if (relayed === null || set === null) return this.#local
    let engine = this.#bySet.get(set)
    if (engine === undefined) {
      engine = new RelaySubscriptions({
        set,
        relay: relayed.relay,
        ids: this.#ids,
        outbox: this.#outbox,
      })
      this.#bySet.set(set, engine)
    }
    return engine
  }

  *#engines(): Iterable<Engine> {
    if (this.#local !== null) yield this.#local
    yield* this.#bySet.values()
  }

  #counts(): { count: number; distinct: number } {
    let [count, distinct] = [0, 0]
    for (const { registry } of this.#engines()) {
      count += registry.count
      distinct += registry.distinct
    }
    return { count, distinct }
  }
}
