// The decision on one inbound message: its bytes and its session in, an answer out. Thread: main.
// No sockets: `Session` shows only what a method may do with the connection.
import type { Clock } from '../../base/clock.ts'
import type { Answer } from '../../jsonrpc/build.ts'
import type { Methods } from '../../jsonrpc/methods.ts'
import type { Call } from '../../jsonrpc/parse.ts'
import { type Allowance, type Host, type Served, serve } from '../../jsonrpc/serve.ts'
import type { HubSubscriptions } from '../../pubsub/hub-subscriptions.ts'
import type { Session as PubsubSession } from '../../pubsub/session.ts'
import type { QuotaMeters } from '../../quota/meters.ts'
import type { Budget } from '../../quota/quota.ts'
import { type Log, LogThrottle } from '../../telemetry/log.ts'
import type { WebsocketMeters } from './meters.ts'

/** One connection of a customer, as methods see it. */
export interface Session extends PubsubSession {
  readonly budget: Budget
  /** Serves its subscriptions. */
  readonly engine: HubSubscriptions
}

export interface HandleDeps {
  readonly methods: Methods<Session>
  readonly meters: WebsocketMeters
  readonly quotaMeters: QuotaMeters
  readonly clock: Clock
  readonly log: Log
}

export class MessageHandler implements Host<Session, Allowance> {
  readonly #deps: HandleDeps
  readonly #throttle = new LogThrottle()

  constructor(deps: HandleDeps) {
    this.#deps = deps
  }

  /** What to send back, '' for nothing. Never throws and never rejects. */
  handle(message: Buffer, session: Session): Served<Allowance> | Promise<Served<Allowance>> {
    return serve(message, session, this)
  }

  batchItemsMax({ budget }: Session): number {
    return budget.plan.batchItems
  }

  spend({ budget }: Session, methods: string | readonly string[]): Allowance {
    const { ok, reason, retryAfterMs } = budget.spend(methods)
    if (!ok) this.#deps.quotaMeters.refused.websocket.inc()
    return { ok, reason, retryAfterMs }
  }

  enter({ budget }: Session): boolean {
    const isIn = budget.enter('calls')
    if (!isIn) this.#deps.quotaMeters.refused.websocket.inc()
    return isIn
  }

  leave({ budget }: Session): void {
    budget.leave('calls')
  }

  /** web3.js and kit send this notification every few seconds to keep a connection warm. */
  ignores({ method, id }: Call): boolean {
    return method === 'ping' && id === null
  }

  call(call: Call, session: Session): Answer | Promise<Answer> {
    const answer = this.#deps.methods.call(call, session)
    if (answer instanceof Promise) return answer.then((done) => this.#count(call, done))
    return this.#count(call, answer)
  }

  refused(method: string): void {
    this.#deps.meters.calls.count(method, 'refused')
  }

  failed(method: string, error: unknown): void {
    this.#deps.meters.calls.count(method, 'error')
    if (this.#throttle.allows('method', this.#deps.clock.monotonicMs()))
      this.#deps.log.error('a method failed', { reason: String(error) })
  }

  #count(call: Call, answer: Answer): Answer {
    this.#deps.meters.calls.count(call.method, answer.kind === 'error' ? 'error' : 'ok')
    return answer
  }
}
