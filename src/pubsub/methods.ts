// The subscribe and unsubscribe methods of the websocket door. Thread: main.
// Subscribing answers with the id, then notifications follow; the answer always comes first.
import { codesOf } from '../base/codes.ts'
import { type Answer, encodedText, failure, type RpcError, rpcErrors } from '../jsonrpc/build.ts'
import type { Method, MethodTable } from '../jsonrpc/methods.ts'
import type { Asked, Engine } from './engine.ts'
import { overRate } from './outbox.ts'
import { readers, readId } from './params.ts'
import type { Refused } from './registry.ts'
import type { Session } from './session.ts'
import type { Topic } from './wanted.ts'
import { topics } from './wanted.ts'

/** `engineOf` says who serves a connection; null where nobody does. */
export function subscriptionMethods<S extends Session>(
  engineOf: (session: S) => Engine | null,
): MethodTable<S> {
  const table: Record<string, Method<S>> = {}
  for (const topic of topics) {
    table[`${topic}Subscribe`] = ({ params }, session) => {
      const engine = engineOf(session)
      if (engine === null) return failure(rpcErrors.unknownMethod)
      const wanted = readersOf(topic)(params)
      if ('code' in wanted) return failure(wanted)
      const asked = engine.subscribe(session, wanted)
      if (asked instanceof Promise) return asked.then((done) => answerOf(done, session))
      return answerOf(asked, session)
    }
    table[`${topic}Unsubscribe`] = ({ params }, session) => {
      const engine = engineOf(session)
      if (engine === null) return failure(rpcErrors.unknownMethod)
      const id = readId(params)
      if (id === null) return failure(rpcErrors.invalidParams)
      return engine.unsubscribe(session, id) ? DONE : failure(UNKNOWN_ID)
    }
  }
  return table
}

const DONE = encodedText('true')
const UNKNOWN_ID: RpcError = { code: -32602, message: 'Invalid subscription id.' }
const NODE_FULL: RpcError = {
  code: -32603,
  message: 'Internal Error: Subscription refused. Node subscription limit reached',
}

function readersOf(topic: Topic) {
  return readers[topic]!
}

function answerOf(asked: Asked, session: Session): Answer {
  if (typeof asked === 'string') return refused(asked, session)
  return 'code' in asked ? failure(asked) : encodedText(String(asked.id))
}

function refused(reason: Refused, { budget }: Session): Answer {
  const { subscriptionsPerConnection: perConnection, distinctSubscriptions } = budget.plan
  switch (reason) {
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
