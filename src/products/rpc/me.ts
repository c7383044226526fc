// Answers GET /v1/me: what the caller's plan allows, what was used of it, what is open now.
// Times are UTC; null is no limit, or unknown while the registry of a cluster does not answer.
import { isBug } from '../../base/assert.ts'
import { errorMessage } from '../../base/jsonrpc/build.ts'
import { overBudget } from '../../base/jsonrpc/serve.ts'
import { Reply, ResponseHead, withRetryAfter } from '../../base/transport/reply.ts'
import type { PlanValues } from '../../customers/subscriptions/plans.ts'
import {
  addToDay,
  isoTime,
  newestDays,
  type UsageCounts,
  type UsageDay,
  type UsageReport,
} from '../../customers/subscriptions/usage.ts'
import { type Caller, type HandleDeps, rateHead } from './handle.ts'

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
