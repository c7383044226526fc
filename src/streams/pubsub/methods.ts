// The subscribe and unsubscribe methods of PubSub.
// Subscribing answers with the id, then notifications follow; the answer always comes first.
import { codesOf } from '../../base/codes.ts'
import {
  type Answer,
  encodedText,
  failure,
  type RpcError,
  rpcErrors,
} from '../../base/jsonrpc/build.ts'
import type { Method, MethodTable } from '../../base/jsonrpc/serve.ts'
import type { Session } from './chain.ts'
import type { PubsubEngine } from './engine.ts'
import type { Refused } from './feed.ts'
import { overRate } from './notifier.ts'
import { readers, readId, topics } from './read-params.ts'

/** `engineOf` returns the engine that serves a connection. */
export function subscriptionMethods<S extends Session>(
  engineOf: (session: S) => PubsubEngine,
): MethodTable<S> {
  const table: Record<string, Method<S>> = {
    voteSubscribe: () => failure(NO_VOTES),
    voteUnsubscribe: () => failure(NO_VOTES),
  }
  for (const topic of topics) {
    table[`${topic}Subscribe`] = (call, session) => {
      const params = readers[topic](call.params)
      if ('code' in params) return failure(params)
      const feed = engineOf(session).subscribe(session, params)
      return typeof feed === 'string' ? refused(feed, session) : encodedText(String(feed.id))
    }
    table[`${topic}Unsubscribe`] = ({ params }, session) => {
      const id = readId(params)
      if (id === null) return failure(rpcErrors.invalidParams)
      return engineOf(session).unsubscribe(session, id) ? DONE : failure(UNKNOWN_ID)
    }
  }
  return table
}

const DONE = encodedText('true')
const UNKNOWN_ID: RpcError = { code: -32602, message: 'Invalid subscription id.' }
const NO_VOTES: RpcError = {
  code: rpcErrors.unknownMethod.code,
  message: 'Method not supported: the geyser stream carries no votes',
}
const NODE_FULL: RpcError = {
  code: -32603,
  message: 'Internal Error: Subscription refused. Node subscription limit reached',
}

function refused(reason: Refused, { budget }: Session): Answer {
  const { subscriptionsPerConnection: perConnection, distinctSubscriptions } = budget.plan
  switch (reason) {
    case 'chain-down':
      return failure(rpcErrors.nodeUnhealthy)
    case 'node-full':
      return failure(NODE_FULL)
    case 'connection-full':
      return exhausted(`the plan has ${perConnection} subscriptions on one connection`, {
        reason: 'subscriptions',
        limit: perConnection,
      })
    case 'customer-full':
      return exhausted(`the plan has ${distinctSubscriptions} distinct subscriptions`, {
        reason: 'distinct-subscriptions',
        limit: distinctSubscriptions,
      })
    case 'customer-over-rate':
      return exhausted('notifications cost more than the plan allows', overRate(budget))
  }
}

function exhausted(why: string, data: object): Answer {
  return failure({ code: codesOf.exhausted.jsonrpc, message: `Too many requests: ${why}`, data })
}
