// The decision of the rpc door: a body and its caller in, an answer out. Thread: main. No sockets.
//
//   body -> jsonrpc/serve: parse, spend, enter, call -> message
//        -> status and rate lines (reply-head.ts) -> server.ts
import type { Clock } from '../../base/clock.ts'
import type { Answer, Message } from '../../jsonrpc/build.ts'
import { MessageStream } from '../../jsonrpc/message-stream.ts'
import type { Answering } from '../../jsonrpc/methods.ts'
import type { Call } from '../../jsonrpc/parse.ts'
import { type Allowance, type Host, type Served, serve } from '../../jsonrpc/serve.ts'
import type { MeteredEndpoint, QuotaMeters } from '../../quota/meters.ts'
import type { Budget } from '../../quota/quota.ts'
import type { Subscription } from '../../subscriptions/subscription.ts'
import { type Log, LogThrottle } from '../../telemetry/log.ts'
import { type Body, type Head, Reply, withRetryAfter } from '../../transport/reply.ts'
import type { RpcMeters } from './meters.ts'
import { rateHead } from './reply-head.ts'

/** Who calls; handed to every method. */
export interface Caller {
  readonly subscription: Subscription
  readonly budget: Budget
  /** The lines that its answers begin with. */
  readonly head: Head
}

export interface HandleDeps {
  readonly methods: Answering<Caller>
  readonly meters: RpcMeters
  readonly quotaMeters: QuotaMeters
  readonly clock: Clock
  readonly log: Log
}

/** A budget writes over its verdict at the next call, so what an answer needs is taken at once. */
interface RpcAllowance extends Allowance {
  readonly head: Head
}

const door: MeteredEndpoint = 'rpc'
/** Solana's server ends each body with a line break; a lone notification has no body. */
const LINE_BREAK = '\n'

export class RpcHandler implements Host<Caller, RpcAllowance> {
  readonly #deps: HandleDeps
  readonly #throttle = new LogThrottle()
  readonly messageEnd = LINE_BREAK

  constructor(deps: HandleDeps) {
    this.#deps = deps
  }

  /** Never throws and never rejects. */
  handle(body: Buffer, caller: Caller): Reply | Promise<Reply> {
    const beganMs = this.#deps.clock.monotonicMs()
    const served = serve(body, caller, this)
    if (served instanceof Promise) return served.then((done) => this.#finish(done, caller, beganMs))
    return this.#finish(served, caller, beganMs)
  }

  batchItemsMax({ budget }: Caller): number {
    return budget.plan.batchItems
  }

  spend({ budget, head }: Caller, methods: string | readonly string[]): RpcAllowance {
    const verdict = budget.spend(methods)
    const { ok, reason, retryAfterMs } = verdict
    return { ok, reason, retryAfterMs, head: rateHead(head, verdict) }
  }

  enter({ budget }: Caller): boolean {
    return budget.enter('calls')
  }

  leave({ budget }: Caller): void {
    budget.leave('calls')
  }

  call(call: Call, caller: Caller): Answer | Promise<Answer> {
    return this.#deps.methods.call(call, caller)
  }

  answered(method: string, { kind }: Answer): void {
    this.#deps.meters.calls.count(method, kind === 'error' ? 'error' : 'ok')
  }

  refused(method: string): void {
    this.#deps.meters.calls.count(method, 'refused')
  }

  failed(method: string, error: unknown): void {
    this.#deps.meters.calls.count(method, 'error')
    if (this.#throttle.allows('method', this.#deps.clock.monotonicMs()))
      this.#deps.log.error('a method failed', { reason: String(error) })
  }

  #finish(served: Served<RpcAllowance>, { budget }: Caller, beganMs: number): Reply {
    const { message, allowance, isExhausted, retryAfterMs } = served
    this.#deps.meters.latency.observeMs(this.#deps.clock.monotonicMs() - beganMs)
    // Nothing is ignored on this door, so there always is an allowance.
    const { head } = allowance!
    const body = metered(message, budget)
    if (!isExhausted) return new Reply(200, head, body)
    this.#deps.quotaMeters.refused[door].inc()
    return new Reply(429, withRetryAfter(head, retryAfterMs), body)
  }
}

/** Counts the bytes of an answer, those of a stream as they go. */
function metered(message: Message, budget: Budget): Body {
  if (!(message instanceof MessageStream)) {
    budget.meter('bytes', message.length)
    return message
  }
  message.onBytes = (count) => budget.meter('bytes', count)
  return message
}
