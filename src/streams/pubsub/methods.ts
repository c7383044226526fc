// The subscribe and unsubscribe methods of PubSub, and the one that changes keys.
// Subscribing answers with the id, then notifications follow; the answer always comes first.
import { codesOf } from '../../base/codes.ts'
import { commitmentNames } from '../../base/commitment.ts'
import {
  type Answer,
  encodedText,
  failure,
  type RpcError,
  rpcErrors,
} from '../../base/jsonrpc/build.ts'
import type { Method, MethodTable } from '../../base/jsonrpc/serve.ts'
import type { Session } from './chain.ts'
import { type PubsubCursor, readCursor } from './cursor.ts'
import type { KeysProblem, PubsubEngine } from './engine.ts'
import type { Refused } from './feed.ts'
import { CLEANED_UP, type ResumeProblem } from './feed-replay.ts'
import { overRate } from './notifier.ts'
import {
  hasCursor,
  hasMoreIn,
  readers,
  readId,
  readKeysChange,
  resumeIn,
  type SubscriptionParams,
  topics,
} from './read-params.ts'

/** `engineOf` returns the engine that serves a connection. */
export function subscriptionMethods<S extends Session>(
  engineOf: (session: S) => PubsubEngine,
): MethodTable<S> {
  const table: Record<string, Method<S>> = {
    transactionUpdate: ({ params }, session) => {
      const change = readKeysChange(params)
      if ('code' in change) return failure(change)
      const problem = engineOf(session).changeKeys(session, change)
      return problem === null ? DONE : notChanged(problem, session)
    },
    voteSubscribe: () => failure(NO_VOTES),
    voteUnsubscribe: () => failure(NO_VOTES),
  }
  for (const topic of topics) {
    table[`${topic}Subscribe`] = (call, session) => {
      const params = readers[topic](call.params)
      if ('code' in params) return failure(params)
      const resume = readResume(resumeIn(topic, call.params), params)
      if (resume !== null && 'code' in resume) return failure(resume)
      const engine = engineOf(session)
      const isHeld = topic === 'transaction' && hasMoreIn(call.params)
      const feed =
        resume === null
          ? engine.subscribe(session, params)
          : engine.resume(session, params, resume, isHeld)
      if (typeof feed === 'string') return refused(feed, session)
      return 'kind' in feed ? failure(notResumed(feed)) : encodedText(String(feed.id))
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

/** Null where nothing is resumed. */
function readResume(given: unknown, params: SubscriptionParams): PubsubCursor | RpcError | null {
  if (given === undefined || !hasCursor(params)) return null
  const cursor = typeof given === 'string' ? readCursor(given) : 'malformed'
  if (cursor === 'malformed') return invalidCursor(cursor, 'the cursor is malformed')
  if (cursor === 'version') return invalidCursor(cursor, 'the cursor is of another version')
  const own = 'commitment' in params ? params.commitment : null
  if (cursor.topic === params.kind && cursor.commitment === own) return cursor
  const level = cursor.commitment === null ? '' : ` at ${commitmentNames[cursor.commitment]}`
  return invalidCursor('kind', `the cursor is of ${cursor.topic}Subscribe${level}`)
}

function invalidCursor(reason: string, why: string): RpcError {
  const { code } = rpcErrors.invalidParams
  return { code, message: `Invalid params: ${why}`, data: { reason: `cursor-${reason}` } }
}

function notResumed(problem: ResumeProblem): RpcError {
  switch (problem.kind) {
    case 'too-old': {
      const { oldestSlot } = problem
      const message = `The slots after the cursor are not kept. First available slot: ${oldestSlot}`
      return { code: CLEANED_UP, message, data: { reason: 'cursor-too-old', oldestSlot } }
    }
    case 'ahead':
      return invalidCursor('ahead', 'the cursor is of slots that this chain has not reached')
    case 'unavailable': {
      const data = { reason: 'replay-unavailable' }
      return { code: codesOf.unavailable.jsonrpc, message: 'Replay is not available', data }
    }
  }
}

function notChanged(problem: KeysProblem, session: Session): Answer {
  if (problem.kind === 'unknown') return failure(UNKNOWN_ID)
  if (problem.kind === 'refused') return refused(problem.reason, session)
  const { code } = rpcErrors.invalidParams
  return failure({ code, message: `Invalid params: failed to change keys: ${problem.why}` })
}

function refused(reason: Refused, { budget }: Session): Answer {
  const { subscriptionsPerConnection: perConnection, distinctSubscriptions } = budget.plan
  switch (reason) {
    case 'chain-down':
      return failure(rpcErrors.nodeUnhealthy)
    case 'node-full':
      return failure(NODE_FULL)
    case 'subscribed':
      return failure(invalidCursor('in-use', 'the connection has this subscription already'))
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
