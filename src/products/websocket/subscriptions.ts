// Solana PubSub: the subscriptions of the websocket endpoint, an engine per chain.
// Knows no socket, only sessions and a function that publishes.
//
//   message -> methods -> engine of the connection's chain -> registry -> feed, shared by all
//              subscribers with the same params
//   stream  -> engine: result of a feed -> notifier: text once -> published to all subscribers
import type { Clock } from '../../base/clock.ts'
import type { MethodTable } from '../../base/jsonrpc/serve.ts'
import type { Log } from '../../base/telemetry/log.ts'
import type { PubsubChain } from '../../streams/pubsub/chain.ts'
import { PubsubEngine, subscriptionMethods } from '../../streams/pubsub/engine.ts'
import { Ids, type Publish } from '../../streams/pubsub/feed.ts'
import { Notifier, type SubscriptionMeters } from '../../streams/pubsub/notifier.ts'
import type { Session } from './handle.ts'

export interface SubscriptionsDeps {
  readonly meters: SubscriptionMeters
  readonly clock: Clock
  readonly log: Log
}

export class Subscriptions {
  readonly methods: MethodTable<Session> = subscriptionMethods(({ engine }) => engine)
  readonly #deps: SubscriptionsDeps & { readonly ids: Ids; readonly notifier: Notifier }
  readonly #engines = new Map<PubsubChain, PubsubEngine>()

  constructor(deps: SubscriptionsDeps) {
    this.#deps = { ...deps, ids: new Ids(), notifier: new Notifier(deps.meters, deps.clock) }
    deps.meters.subscriptions = () => this.#counts()
  }

  usePublisher(publish: Publish): void {
    this.#deps.notifier.usePublisher(publish)
  }

  /** The engine of a chain, started with the chain's first connection. */
  engineOf(chain: PubsubChain): PubsubEngine {
    let engine = this.#engines.get(chain)
    if (engine === undefined) {
      engine = new PubsubEngine({ ...this.#deps, chain })
      this.#engines.set(chain, engine)
    }
    return engine
  }

  stop(): void {
    for (const engine of this.#engines.values()) engine.stop()
    this.#deps.notifier.stop()
  }

  #counts(): { count: number; distinct: number } {
    let [count, distinct] = [0, 0]
    for (const { registry } of this.#engines.values()) {
      count += registry.count
      distinct += registry.distinct
    }
    return { count, distinct }
  }
}
