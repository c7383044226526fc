// Decides on one rpc request: takes its body and caller, returns the HTTP reply.
// No sockets.
//
//   body -> parse -> admit: charge, permits -> refused: one error per item
//                                           -> answer each call -> response, rate headers
import type { Clock } from '../../base/clock.ts'
import { type Answer, failure, type Message, rpcErrors } from '../../base/jsonrpc/build.ts'
import { KnownCalls } from '../../base/jsonrpc/known-calls.ts'
import { MessageStream } from '../../base/jsonrpc/message-stream.ts'
import type { Method } from '../../base/jsonrpc/methods.ts'
import { type Call, parseCall, parseRequest, type RpcRequest } from '../../base/jsonrpc/parse.ts'
import {
  admit,
  answerCalls,
  type CallHandling,
  countCalls,
  refusalMessage,
  responseMessage,
} from '../../base/jsonrpc/serve.ts'
import { faultReport, type Log } from '../../base/telemetry/log.ts'
import { type Body, Reply, type ResponseHead, withRetryAfter } from '../../base/transport/reply.ts'
import type { Budget } from '../../customers/quota/budget.ts'
import type { QuotaMeters } from '../../customers/quota/meters.ts'
import type { Subscription } from '../../customers/subscriptions/subscription.ts'
import type { RpcMeters } from './meters.ts'
import { rateHead } from './reply-head.ts'

/** Who calls; passed to the proxy. */
export interface Caller {
  readonly subscription: Subscription
  readonly budget: Budget
  /** First headers of every answer. */
  readonly head: ResponseHead
}

export interface HandleDeps {
  /** Answers every admitted call. */
  readonly proxy: { readonly call: Method<Caller> }
  readonly meters: RpcMeters
  readonly quotaMeters: QuotaMeters
  readonly clock: Clock
  readonly log: Log
}

/** Solana's server ends each body with a line break; a lone notification has no body. */
const LINE_BREAK = '\n'

/** Whether the stream of the set alone answered, or any call went to a node. */
const STREAM = 'x-sluice-source: stream'
const NODE = 'x-sluice-source: node'

export class RpcHandler {
  readonly #deps: HandleDeps
  readonly #reportBug: (error: unknown) => void
  readonly #known = new KnownCalls(parseCall)

  constructor(deps: HandleDeps) {
    this.#deps = deps
    this.#reportBug = faultReport(deps.log, 'method failed')
  }

  /** Never throws and never rejects. */
  handle(body: Buffer, caller: Caller): Reply | Promise<Reply> {
    const { clock, meters, quotaMeters } = this.#deps
    const beganMs = clock.monotonicMs()
    const request = parseRequest(body, caller.budget.plan.batchItems, this.#known)
    const { allowance, refusal } = admit(request, caller.budget)
    const head = rateHead(caller.head, allowance)
    const serving = new Serving(this.#deps, caller, request, head, beganMs, this.#reportBug)
    if (refusal === null) return answerCalls(request, serving)
    countCalls(meters.calls, request)
    const message = refusalMessage(request, refusal.error, LINE_BREAK)
    if (!refusal.isExhausted) return serving.reply(200, head, message)
    quotaMeters.refused.rpc.inc()
    return serving.reply(429, withRetryAfter(head, refusal.retryAfterMs), message)
  }
}

/** One request that is being answered; an object and not closures, of which each is allocated. */
class Serving implements CallHandling<Reply> {
  readonly budget: Budget
  readonly failed: (error: unknown) => void
  readonly #deps: HandleDeps
  readonly #caller: Caller
  readonly #request: RpcRequest
  readonly #head: ResponseHead
  readonly #beganMs: number

  constructor(
    deps: HandleDeps,
    caller: Caller,
    request: RpcRequest,
    head: ResponseHead,
    beganMs: number,
    failed: (error: unknown) => void,
  ) {
    this.budget = caller.budget
    this.failed = failed
    this.#deps = deps
    this.#caller = caller
    this.#request = request
    this.#head = head
    this.#beganMs = beganMs
  }

  answer(call: Call): Answer | Promise<Answer> {
    if (isCheatCode(call.method)) return failure(rpcErrors.unknownMethod)
    return this.#deps.proxy.call(call, this.#caller)
  }

  respond(answers: readonly Answer[]): Reply {
    countCalls(this.#deps.meters.calls, this.#request, answers)
    const head = this.#head.andLines(answers.every(isFromStream) ? STREAM : NODE)
    return this.reply(200, head, responseMessage(this.#request, answers, LINE_BREAK))
  }

  reply(status: number, head: ResponseHead, message: Message): Reply {
    const { clock, meters } = this.#deps
    meters.latency.observeMs(clock.monotonicMs() - this.#beganMs)
    return new Reply(status, head, metered(message, this.budget))
  }
}

/** Methods of the devnode that change its state without a transaction: not for customers. */
function isCheatCode(method: string): boolean {
  return method.startsWith('surfnet_')
}

function isFromStream(answer: Answer): boolean {
  return answer.kind === 'text' && answer.source === 'stream'
}

/** Counts the bytes of an answer, those of a stream as they are sent. */
function metered(message: Message, budget: Budget): Body {
  if (!(message instanceof MessageStream)) {
    budget.meter('bytes', message.length)
    return message
  }
  message.onBytes = (count) => budget.meter('bytes', count)
  return message
}
