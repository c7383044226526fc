// `sluice usage`: shows the usage of subscriptions in their current 30-day window.
import { accept, type Outcome } from '../../base/errors.ts'
import type { Store } from '../../customers/subscriptions/store.ts'
import type { Subscription } from '../../customers/subscriptions/subscription.ts'
import type { UsageReport } from '../../customers/subscriptions/usage.ts'
import { recordOf, tableOf } from './output.ts'
import { notFound, refSpec, withStore } from './registry.ts'
import type { Call, Report, Verb } from './verb.ts'

export const usageVerb: Verb = {
  words: ['usage'],
  summary: 'Show usage in the current 30-day window, of one subscription or of all.',
  examples: ['usage', 'usage acme --json'],
  positionals: [{ ...refSpec, optional: true }],
  run(call) {
    const [ref] = call.positionals
    return withStore(call, (store, _changes, shared) => {
      const usageOf = async (id: string) => (shared === null ? store.usage(id) : shared.report(id))
      return ref === undefined ? all(call, store, usageOf) : one(call, store, ref, usageOf)
    })
  },
}

type UsageOf = (ref: string) => Promise<UsageReport | null>

async function one(
  call: Call,
  store: Store,
  ref: string,
  usageOf: UsageOf,
): Promise<Outcome<Report>> {
  const found = store.find(ref)
  const usage = await usageOf(ref)
  if (found === null || usage === null) return notFound(ref)
  const limit = limitOf(call, found)
  const summary = recordOf([
    ['subscription', `${found.id} (${found.label})`],
    ['plan', found.plan],
    ['window', `${usage.window.from} to ${usage.window.to}`],
    ['credits', `${usage.window.credits} of ${limit ?? 'no limit'}`],
  ])
  const head = ['day', 'credits', 'calls', 'refused', 'notifications', 'bytes']
  const rows = usage.days.map((day) => [
    day.day,
    ...[day.credits, day.calls, day.refused, day.notifications, day.bytes].map(String),
  ])
  const text = `${summary}\n\n${tableOf(head, rows, 'No usage yet.')}`
  return accept({ json: { ...usage, label: found.label, plan: found.plan, limit }, text })
}

async function all(call: Call, store: Store, usageOf: UsageOf): Promise<Outcome<Report>> {
  const reports = []
  for (const found of store.list()) {
    const usage = await usageOf(found.id)
    if (usage !== null) reports.push({ found, usage, limit: limitOf(call, found) })
  }
  const rows = reports.map(({ found, usage, limit }) => [
    found.id,
    found.label,
    found.plan,
    String(usage.window.credits),
    limit === null ? 'no limit' : String(limit),
    usage.window.to.slice(0, 10),
  ])
  const head = ['id', 'label', 'plan', 'credits', 'of', 'window ends']
  const json = reports.map(({ found, usage, limit }) => ({
    id: found.id,
    label: found.label,
    plan: found.plan,
    window: usage.window,
    limit,
  }))
  return accept({ json: { usage: json }, text: tableOf(head, rows, 'No subscriptions.') })
}

/** Credits of the plan per 30 days; null for no limit or a plan that no longer exists. */
function limitOf(call: Call, subscription: Subscription): number | null {
  const credits = call.loaded.config.plans[subscription.plan]?.creditsPer30Days ?? 0
  return credits === 0 ? null : credits
}
