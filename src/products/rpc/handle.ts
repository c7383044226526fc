// Decides on one rpc request: takes its body and caller, returns the HTTP reply.
// No sockets.
//
//   body -> parse -> admit: permits, charge -> one error per item
//                 -> answer each call       -> response, rate headers
import type { Clock } from '../../base/clock.ts'
import { isBug } from '../../base/errors.ts'
import { errorMessage, type Message, MessageStream } from '../../base/jsonrpc/build.ts'
import { KnownCalls, parseRequest } from '../../base/jsonrpc/parse.ts'
import {
  Answerer,
  admit,
  countCalls,
  type Method,
  overBudget,
  refusalMessage,
  responseMessage,
} from '../../base/jsonrpc/serve.ts'
import { whenDone } from '../../base/steps.ts'
import { faultReport, type Log } from '../../base/telemetry/log.ts'
import { type Body, Reply, ResponseHead, withRetryAfter } from '../../base/transport/reply.ts'
import type { Budget, Verdict } from '../../customers/quota/budget.ts'
import type { QuotaMeters } from '../../customers/quota/meters.ts'
import type { PlanValues } from '../../customers/subscriptions/plans.ts'
import type { Subscription } from '../../customers/subscriptions/subscription.ts'
import {
  addToDay,
  isoTime,
  newestDays,
  type UsageCounts,
  type UsageDay,
  type UsageReport,
} from '../../customers/subscriptions/usage.ts'
import type { RpcMeters } from './meters.ts'

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
export const STREAM = 'x-sluice-source: stream'
const NODE = 'x-sluice-source: node'

export class RpcHandler {
  readonly #deps: HandleDeps
  readonly #answerer: Answerer<Caller>
  readonly #known = new KnownCalls()

  constructor(deps: HandleDeps) {
    const { proxy, log } = deps
    this.#deps = deps
    this.#answerer = new Answerer(proxy.call, faultReport(log, 'method failed'))
  }

  /** Never throws and never rejects. */
  handle(body: Buffer, caller: Caller): Reply | Promise<Reply> {
    const { clock, meters, quotaMeters } = this.#deps
    const { budget } = caller
    const beganMs = clock.monotonicMs()
    const request = parseRequest(body, budget.plan.batchItems, this.#known)
    const { allowance, refusal } = admit(request, budget)
    const head = rateHead(caller.head, allowance)
    const reply = (status: number, lines: ResponseHead, message: Message) => {
      meters.latency.observeMs(clock.monotonicMs() - beganMs)
      return new Reply(status, lines, metered(message, budget))
    }
    if (refusal !== null) {
      countCalls(meters.calls, request)
      const message = refusalMessage(request, refusal.error, LINE_BREAK)
      if (!refusal.isExhausted) return reply(200, head, message)
      quotaMeters.refused.rpc.inc()
      return reply(429, withRetryAfter(head, refusal.retryAfterMs), message)
    }
    return whenDone(this.#answerer.answer(request, caller, budget), (answers) => {
      countCalls(meters.calls, request, answers)
      const isFromStream = answers.every((one) => one.kind === 'text' && one.source === 'stream')
      const source = isFromStream ? STREAM : NODE
      return reply(200, head.andLines(source), responseMessage(request, answers, LINE_BREAK))
    })
  }
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

// Builds the response headers of the rpc endpoint.

const CORS_ANY = { 'access-control-allow-origin': '*' }
const CORS_AGE_SECS = 86_400

/** On every answer, as on Solana's own server. */
const plainHead = ResponseHead.of({ 'content-type': 'application/json; charset=utf-8' })

/** With CORS headers; only browsers send an Origin, so only they get them. */
const browserHead = ResponseHead.of({
  'content-type': 'application/json; charset=utf-8',
  ...CORS_ANY,
  'access-control-expose-headers': 'ratelimit, ratelimit-policy, retry-after, x-sluice-source',
})

/** First headers of every answer to this request. */
export function baseHead(request: { readonly origin: string } | null): ResponseHead {
  return request === null || request.origin === '' ? plainHead : browserHead
}

export const preflightHead = ResponseHead.of({
  ...CORS_ANY,
  'access-control-allow-methods': 'POST, OPTIONS',
  'access-control-allow-headers': 'content-type, solana-client, x-token, authorization, x-api-key',
  'access-control-max-age': String(CORS_AGE_SECS),
})

/** Heads that were built last, each at the place that its numbers name; a power of two. */
const KEPT_HEADS = 256
interface KeptHead extends Pick<Verdict, 'limit' | 'windowSecs' | 'remaining' | 'resetSecs'> {
  readonly base: ResponseHead
  readonly head: ResponseHead
}
const kept = new Array<KeptHead | null>(KEPT_HEADS).fill(null)

/** Adds RateLimit-Policy and RateLimit of the IETF draft: credits of the plan, and those left.
 *  Most calls have the numbers of one before them, and so its text. */
export function rateHead(base: ResponseHead, verdict: Verdict): ResponseHead {
  const { limit, windowSecs, remaining, resetSecs } = verdict
  const at = (remaining ^ (resetSecs << 4) ^ (limit << 2)) & (KEPT_HEADS - 1)
  const last = kept[at]!
  if (
    last !== null &&
    last.remaining === remaining &&
    last.resetSecs === resetSecs &&
    last.limit === limit &&
    last.windowSecs === windowSecs &&
    last.base === base
  )
    return last.head
  const policy = `ratelimit-policy: "credits";q=${limit};w=${windowSecs}`
  const rate = `ratelimit: "credits";r=${remaining};t=${resetSecs}`
  const head = base.andLines(`${policy}\r\n${rate}`)
  kept[at] = { base, limit, windowSecs, remaining, resetSecs, head }
  return head
}

// Answers GET /v1/me: what the caller's plan allows, what was used of it, what is open now.
// Times are UTC; null is no limit, or unknown while the registry of a cluster does not answer.

export interface MeDeps extends Pick<HandleDeps, 'clock' | 'quotaMeters'> {
  /** Of all gateways, as far as it was flushed; rejects while it cannot be read. */
  usageOf(id: string): Promise<UsageReport | null>
}

/** A page of another origin may not read it: without CORS. */
const meHead = ResponseHead.of({
  'content-type': 'application/json; charset=utf-8',
  'cache-control': 'no-store',
})

export async function answerMe(caller: Caller, deps: MeDeps): Promise<Reply> {
  const { budget, subscription } = caller
  const verdict = budget.spend('/v1/me')
  const head = rateHead(meHead, verdict)
  if (!verdict.ok) {
    deps.quotaMeters.refused.rpc.inc()
    const { error, retryAfterMs } = overBudget(verdict)
    return new Reply(429, withRetryAfter(head, retryAfterMs), `${errorMessage('null', error)}\n`)
  }
  const { window, open, refusals, sinceMs } = budget.state()
  const days = await daysOf(subscription.id, deps)
  const { plan, id, products, tokenLast4, until = null } = subscription
  const limits = limitsOf(budget.plan)
  const { creditsPer30Days } = limits
  const me = {
    ...{ id, products, plan, tokenLast4, until, limits },
    window: {
      from: isoTime(window.startsAtMs),
      to: isoTime(window.endsAtMs),
      credits: window.credits,
      creditsLeft: creditsPer30Days && Math.max(0, creditsPer30Days - window.credits),
    },
    last30Days: days?.reduce(addToDay, none) ?? null,
    days,
    open,
    refused: { since: isoTime(sinceMs), ...refusals },
  }
  return new Reply(200, head, `${JSON.stringify(me)}\n`)
}

const none: UsageCounts = { credits: 0, calls: 0, refused: 0, notifications: 0, bytes: 0 }

async function daysOf(id: string, { usageOf, clock }: MeDeps): Promise<UsageDay[] | null> {
  try {
    return newestDays((await usageOf(id))?.days ?? [], clock.nowMs())
  } catch (error) {
    if (isBug(error)) throw error
    return null
  }
}

/** In a plan 0 is no limit, wherever a limit may be 0. */
function limitsOf(plan: PlanValues) {
  const limits = Object.entries(plan).map(([name, value]) => [name, value === 0 ? null : value])
  // Reason for the cast: the names are those of the plan.
  return Object.fromEntries(limits) as {
    readonly [N in keyof PlanValues]: PlanValues[N] | null
  }
}
