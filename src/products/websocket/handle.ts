// Decides on one inbound message: takes its bytes and session, returns the answer.
// No sockets: `Session` shows only what a method may do with the connection.

import type { Clock } from '../../base/clock.ts'
import type { Message } from '../../base/jsonrpc/build.ts'
import { parseRequest } from '../../base/jsonrpc/parse.ts'
import {
  Answerer,
  admit,
  countCalls,
  type Methods,
  type MethodTable,
  refusalMessage,
  responseMessage,
} from '../../base/jsonrpc/serve.ts'
import { whenDone } from '../../base/steps.ts'
import { faultReport, type Log } from '../../base/telemetry/log.ts'
import type { Budget } from '../../customers/quota/budget.ts'
import type { QuotaMeters } from '../../customers/quota/meters.ts'
import type { PubsubChain, Session as PubsubSession } from '../../streams/pubsub/chain.ts'
import { PubsubEngine, subscriptionMethods } from '../../streams/pubsub/engine.ts'
import { Ids, type Publish } from '../../streams/pubsub/feed.ts'
import { Notifier, type SubscriptionMeters } from '../../streams/pubsub/notifier.ts'
import type { WebsocketMeters } from './meters.ts'

/** One connection of a customer, as methods see it. */
export interface Session extends PubsubSession {
  readonly budget: Budget
  /** Serves its subscriptions. */
  readonly engine: PubsubEngine
}

export interface HandleDeps {
  readonly methods: Methods<Session>
  readonly meters: WebsocketMeters
  readonly quotaMeters: QuotaMeters
  readonly log: Log
}

/** The response, '' for none; 'ping' for a keep-alive. Never throws and never rejects. */
export type HandleMessage = (body: Buffer, session: Session) => 'ping' | Message | Promise<Message>

export function messageHandler(deps: HandleDeps): HandleMessage {
  const { methods, meters, quotaMeters, log } = deps
  const answerer = new Answerer(methods.call, faultReport(log, 'method failed'))
  return (body, session) => {
    const { budget } = session
    const request = parseRequest(body, budget.plan.batchItems)
    const { isBatch, items } = request
    // web3.js and kit send this notification every few seconds to keep a connection open.
    if (!isBatch && items[0]!.method === 'ping' && items[0]!.id === null) return 'ping'
    const { refusal } = admit(request, budget)
    if (refusal !== null) {
      quotaMeters.refused.websocket.inc()
      countCalls(meters.calls, request)
      return refusalMessage(request, refusal.error)
    }
    return whenDone(answerer.answer(request, session, budget), (answers) => {
      countCalls(meters.calls, request, answers)
      return responseMessage(request, answers)
    })
  }
}

// Solana PubSub: the subscriptions of the websocket endpoint, an engine per chain.
// Knows no socket, only sessions and a function that publishes.
//
//   message -> methods -> engine of the connection's chain -> registry -> feed, shared by all
//              subscribers with the same params
//   stream  -> engine: result of a feed -> notifier: text once -> published to all subscribers

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
    this.#deps.notifier.publish = publish
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
