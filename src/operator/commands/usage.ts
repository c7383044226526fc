// `sluice usage`: shows the usage of subscriptions in their current 30-day window.
import { accept, type Outcome } from '../../base/errors.ts'
import { fallbackPlan } from '../../customers/subscriptions/plans.ts'
import type { Store } from '../../customers/subscriptions/store.ts'
import type { Subscription } from '../../customers/subscriptions/subscription.ts'
import type { UsageReport } from '../../customers/subscriptions/usage.ts'
import { offerOf } from '../config/known.ts'
import { recordOf, tableOf } from './output.ts'
import { notFound, offerOfServer, refSpec, withStore } from './registry.ts'
import type { Report, Verb } from './verb.ts'

export const usageVerb: Verb = {
  words: ['usage'],
  summary: 'Show usage in the current 30-day window, of one subscription or of all.',
  examples: ['usage', 'usage acme --json'],
  positionals: [{ ...refSpec, optional: true }],
  run(call) {
    const [ref] = call.positionals
    return withStore(call, async (store, _changes, shared) => {
      const usageOf = async (id: string) => (shared === null ? store.usage(id) : shared.report(id))
      const { config } = call.loaded
      const limits = ((await offerOfServer(config)) ?? offerOf(config)).creditsPer30Days
      return ref === undefined ? all(store, limits, usageOf) : one(store, limits, ref, usageOf)
    })
  },
}

type UsageOf = (ref: string) => Promise<UsageReport | null>
/** Credits per 30 days by plan, 0 for no limit: those of the running server, if there is one. */
type Limits = Readonly<Record<string, number>>

async function one(
  store: Store,
  limits: Limits,
  ref: string,
  usageOf: UsageOf,
): Promise<Outcome<Report>> {
  const found = store.find(ref)
  const usage = await usageOf(ref)
  if (found === null || usage === null) return notFound(ref)
  const { plan, limit } = inForce(found, limits)
  const summary = recordOf([
    ['subscription', `${found.id} (${found.label})`],
    ['plan', plan],
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

async function all(store: Store, limits: Limits, usageOf: UsageOf): Promise<Outcome<Report>> {
  const reports = []
  for (const found of store.list()) {
    const usage = await usageOf(found.id)
    if (usage !== null) reports.push({ found, usage, ...inForce(found, limits) })
  }
  const rows = reports.map(({ found, usage, plan, limit }) => [
    found.id,
    found.label,
    plan,
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

/** The plan as text, and its credits per 30 days; null for no limit. */
function inForce({ plan }: Subscription, limits: Limits) {
  const isKnown = Object.hasOwn(limits, plan)
  const text = isKnown ? plan : `${plan} (unknown plan: ${fallbackPlan} is in force)`
  return { plan: text, limit: limits[isKnown ? plan : fallbackPlan] || null }
}
