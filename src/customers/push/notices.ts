// Finds what the operator is to know of: a quota that is nearly or wholly used, a subscription that
// ends soon or has ended; and pushes a notice of each once.
//
//   subscriptions, budgets ─► due ─► not noticed before? ─► LMDB ─► Push, one at a time ─► receiver
//
// Several gateways find the same and send the same ids: a receiver takes each id once.
import type { Clock } from '../../base/clock.ts'
import { guarded } from '../../base/guard.ts'
import { faultReport, type Log } from '../../base/telemetry/log.ts'
import { postWebhook } from '../../base/transport/webhook.ts'
import type { Notice } from '../subscriptions/notice.ts'
import type { NoticeTable } from '../subscriptions/notice-table.ts'
import { endMsOf, type Subscription } from '../subscriptions/subscription.ts'
import { isoTime } from '../subscriptions/usage.ts'
import type { WebhooksSection } from './config.ts'
import { Push, type PushQueue } from './push.ts'

const lookMs = 10_000
const pushMs = 5_000
const dayMs = 86_400_000
/** An end that was longer ago is no news, as where notices were not configured then. */
const endedMsMax = 7 * dayMs

/** Credits of the current 30 days; `limit` 0 is none. */
export interface Use {
  readonly credits: number
  readonly limit: number
  readonly startsAtMs: number
  readonly endsAtMs: number
}

export interface NoticesDeps {
  readonly section: WebhooksSection
  readonly table: NoticeTable
  subscriptions(): readonly Subscription[]
  useOf(subscription: Subscription): Use
  readonly clock: Clock
  readonly log: Log
}

export class Notices {
  readonly push: Push
  readonly #deps: NoticesDeps
  readonly #timer: NodeJS.Timeout

  constructor(deps: NoticesDeps) {
    const { section, table, clock, log } = deps
    this.#deps = deps
    this.push = new Push({
      ...{ what: 'notices', everyMs: pushMs, clock, log },
      unpushed: queueOf(table),
      to: new URL(section.url).origin,
      send: ({ id, body }, signal) =>
        postWebhook(section, { id, type: 'application/json', body }, { clock, signal }),
    })
    const report = faultReport(log.area('notices'), 'notices could not be stored')
    this.#timer = setInterval(
      guarded(() => this.look(), report),
      lookMs,
    )
    this.push.start()
  }

  /** Stores what is due; the next push sends it. */
  look(): Promise<void> {
    const { section, table, subscriptions, useOf, clock } = this.#deps
    const nowMs = clock.nowMs()
    const all = subscriptions().filter(({ state }) => state !== 'ended')
    return table.add(all.flatMap((one) => dueNotices(one, useOf(one), section, nowMs)))
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.push.stop()
  }
}

export function dueNotices(
  subscription: Subscription,
  { credits, limit, startsAtMs, endsAtMs }: Use,
  { quotaPercent, endDays }: Pick<WebhooksSection, 'quotaPercent' | 'endDays'>,
  nowMs: number,
): Notice[] {
  const { id, label, plan, until } = subscription
  const about = { subscription: id, label }
  const [from, to] = [isoTime(startsAtMs), isoTime(endsAtMs)]
  const quotas = [...new Set([quotaPercent, 100])]
    .filter((percent) => limit > 0 && credits * 100 >= limit * percent)
    .map((percent): Notice => {
      const facts = { percent, credits, limit, plan, windowFrom: from, windowTo: to }
      return { id: `${id}/${from}/quota-${percent}`, type: 'quota', ...about, ...facts }
    })
  if (until === undefined) return quotas
  const leftMs = endMsOf(subscription) - nowMs
  if (leftMs > endDays * dayMs || leftMs < -endedMsMax) return quotas
  const type = leftMs > 0 ? 'ends-soon' : 'ended'
  return [...quotas, { id: `${id}/${until}/${type}`, type, ...about, until }]
}

function queueOf(table: NoticeTable): PushQueue {
  return {
    async take() {
      const next = table.next()
      if (next === null) return null
      const { notice, atMs } = next
      const body = JSON.stringify({ ...notice, at: isoTime(atMs) })
      return { id: notice.id, body: `${body}\n`, records: 1 }
    },
    confirm: ({ id }) => table.sent(id),
    count: () => table.count(),
    lost: () => table.lost(),
  }
}
