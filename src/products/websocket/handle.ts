// Decides on one inbound message: takes its bytes and session, returns the answer.
// No sockets: `Session` shows only what a method may do with the connection.
import type { Message } from '../../base/jsonrpc/build.ts'
import { parseRequest, type RpcRequest } from '../../base/jsonrpc/parse.ts'
import {
  Answerer,
  admit,
  countCalls,
  type Methods,
  refusalMessage,
  responseMessage,
} from '../../base/jsonrpc/serve.ts'
import { whenDone } from '../../base/steps.ts'
import { faultReport, type Log } from '../../base/telemetry/log.ts'
import type { Budget } from '../../customers/quota/budget.ts'
import type { QuotaMeters } from '../../customers/quota/meters.ts'
import type { Session as PubsubSession } from '../../streams/pubsub/chain.ts'
import type { PubsubEngine } from '../../streams/pubsub/engine.ts'
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

export class MessageHandler {
  readonly #deps: HandleDeps
  readonly #answerer: Answerer<Session>

  constructor(deps: HandleDeps) {
    this.#deps = deps
    this.#answerer = new Answerer(deps.methods.call, faultReport(deps.log, 'method failed'))
  }

  /** The response, '' for none; 'ping' for a keep-alive. Never throws and never rejects. */
  handle(body: Buffer, session: Session): 'ping' | Message | Promise<Message> {
    const { meters, quotaMeters } = this.#deps
    const { budget } = session
    const request = parseRequest(body, budget.plan.batchItems)
    if (isPing(request)) return 'ping'
    const { refusal } = admit(request, budget)
    if (refusal !== null) {
      quotaMeters.refused.websocket.inc()
      countCalls(meters.calls, request)
      return refusalMessage(request, refusal.error)
    }
    return whenDone(this.#answerer.answer(request, session, budget), (answers) => {
      countCalls(meters.calls, request, answers)
      return responseMessage(request, answers)
    })
  }
}

/** web3.js and kit send this notification every few seconds to keep a connection open. */
function isPing({ isBatch, items: [item] }: RpcRequest): boolean {
  return !isBatch && item!.method === 'ping' && item!.id === null
}
