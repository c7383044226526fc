// Declares the meters of budgets. Endpoints count their refusals here.
import type { Meters } from '../../base/telemetry/meters.ts'
import { type Entered, enteredKinds } from './budget.ts'
import { type Account, type Quota, topMax } from './quota.ts'

const meteredEndpoints = ['rpc', 'websocket', 'grpc', 'indexer'] as const
export type MeteredEndpoint = (typeof meteredEndpoints)[number]

const openEndpoints = ['metrics', 'grpc', 'tpu'] as const

export type QuotaMeters = ReturnType<typeof declareQuotaMeters>

export function declareQuotaMeters(meters: Meters, quota: Quota) {
  meters.totalRead(
    'sluice_quota_flush_failures_total',
    'Usage flushes to the registry that failed',
    () => quota.flushesFailed,
  )
  return {
    refused: meters.counters(
      'sluice_quota_refused_total',
      'Requests refused because the budget of the subscription is spent',
      'door',
      meteredEndpoints,
    ),
    addressRefused: meters.counters(
      'sluice_address_refused_total',
      'Requests on open endpoints refused because the budget of their address is spent',
      'door',
      openEndpoints,
    ),
  }
}

const other = 'other'
/** Ids of subscriptions: at most those of the top, and `other`. */
const customers: readonly string[] = [other]
/** Which count each counter shows, and what it is. */
const useCounters = {
  credits: 'Credits used',
  calls: 'Calls admitted; each item of a batch is one',
  refused: 'Calls, batches and others refused because a limit of the plan is reached',
  notifications: 'Notifications and updates of streams sent',
  bytes: 'Bytes of updates of streams sent',
} as const

/**
 * Declares the meters of customers: for the operator alone, so never in the meters of the service.
 * A scrape looks at the top, and once at each budget in use.
 */
export function declareCustomerMeters(
  meters: Meters,
  quota: Quota,
  accountOf: (id: string) => Account | null,
): void {
  for (const [count, help] of Object.entries(useCounters) as [keyof typeof useCounters, string][])
    meters.counterRead(
      `sluice_subscription_${count}_total`,
      `${help}, since the start: the ${topMax} subscriptions that used most credits, and the rest`,
      { subscription: customers },
      () =>
        [...quota.use.top(), [other, quota.use.other] as const].map(
          ([subscription, use]) => [{ subscription }, use[count]] as const,
        ),
    )
  const budgets = () =>
    [...quota.use.top()].flatMap(([id]) => {
      const account = accountOf(id)
      return account === null ? [] : [[id, quota.budgetOf(account)] as const]
    })
  meters.gaugesRead(
    'sluice_subscription_window_credits',
    'Credits used in the current 30-day window, on all gateways',
    { subscription: customers },
    () => budgets().map(([subscription, one]) => [{ subscription }, one.state().window.credits]),
  )
  meters.gaugesRead(
    'sluice_subscription_window_credits_limit',
    'Credits of the plan for 30 days; absent without a limit',
    { subscription: customers },
    () =>
      budgets()
        .map(([subscription, { plan }]) => [{ subscription }, plan.creditsPer30Days] as const)
        .filter(([, limit]) => limit > 0),
  )
  meters.gaugesRead(
    'sluice_subscription_open',
    'Calls, connections, subscriptions, streams and queries that are open now',
    { subscription: customers, kind: enteredKinds },
    () => {
      const rest = quota.openNow()
      const rows = budgets().map(([id, budget]) => [id, { ...budget.state().open }] as const)
      for (const [, open] of rows) for (const kind of enteredKinds) rest[kind] -= open[kind]
      return [...rows, [other, rest] as const].flatMap(([subscription, open]) =>
        enteredKinds.map((kind: Entered) => [{ subscription, kind }, open[kind]] as const),
      )
    },
  )
}
