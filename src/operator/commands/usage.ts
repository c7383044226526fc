// `sluice usage` and `sluice audit ...`: what subscriptions used, and the table of their changes.
import { systemClock } from '../../base/clock.ts'
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { fallbackPlan } from '../../customers/subscriptions/plans.ts'
import type { Store } from '../../customers/subscriptions/store.ts'
import type { Subscription } from '../../customers/subscriptions/subscription.ts'
import {
  addToDay,
  dayOf,
  oldestDayKept,
  type UsageCounts,
  type UsageReport,
} from '../../customers/subscriptions/usage.ts'
import { offerOf } from '../config/config.ts'
import { csvOf, recordOf, tableOf } from './output.ts'
import { notFound, offerOfServer, refSpec, withStore } from './registry.ts'
import { flagOf, flagTable, misuse, numberOf, type Report, type Verb } from './verb.ts'

export const usageVerb: Verb = {
  words: ['usage'],
  api: 'read',
  summary: 'Show usage in the current 30-day window or in a month, of one subscription or of all.',
  examples: ['usage', 'usage acme --json', 'usage --month 2026-10 --output csv'],
  positionals: [{ ...refSpec, optional: true }],
  flags: flagTable(`
    --month <yyyy-mm>               Sums of a calendar month in UTC, for a bill.
    --output <form table|json|csv>  How to print [table]; --json is short for --output json.`),
  async run(call) {
    const [ref] = call.positionals
    const month = flagOf(call, 'month')
    const isCsv = flagOf(call, 'output') === 'csv'
    if (isCsv && month === undefined) return misuse('--output csv needs --month')
    const refused = month === undefined ? null : refuseMonth(month, systemClock.nowMs())
    if (refused !== null) return refused
    return withStore(call, async (store, _changes, shared) => {
      const usageOf = async (id: string) => (shared === null ? store.usage(id) : shared.report(id))
      if (month !== undefined) {
        const found = ref === undefined ? store.list() : [store.find(ref)]
        if (ref !== undefined && found[0] === null) return notFound(ref)
        return ofMonth(month, found as readonly Subscription[], usageOf, isCsv)
      }
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
  const head = ['day', 'credits', 'calls', 'refused', 'notifications', 'bytes'] as const
  const rows = usage.days.map((day) => head.map((name) => String(day[name])))
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

const monthForm = /^\d{4}-(0[1-9]|1[0-2])$/

/** A month of which days are no longer kept would be a wrong bill. */
function refuseMonth(month: string, nowMs: number) {
  if (!monthForm.test(month)) return misuse('--month must be a month such as 2026-10')
  if (month > dayOf(nowMs).slice(0, 7)) return misuse(`${month} has not begun yet`)
  const oldest = oldestDayKept(nowMs)
  return `${month}-01` >= oldest
    ? null
    : refuse(
        'invalid',
        'month-not-kept',
        `${month} is not whole any more: days before ${oldest} are removed`,
      )
}

const nothing: UsageCounts = { credits: 0, calls: 0, refused: 0, notifications: 0, bytes: 0 }

/** A row for each that could be used in the month, also one that was not. */
async function ofMonth(
  month: string,
  subscriptions: readonly Subscription[],
  usageOf: UsageOf,
  isCsv: boolean,
): Promise<Outcome<Report>> {
  const usage = []
  for (const { id, label, plan, state, createdAt, changedAt } of subscriptions) {
    const days = ((await usageOf(id))?.days ?? []).filter(({ day }) => day.startsWith(month))
    const isBefore = state === 'ended' && changedAt.slice(0, 7) < month
    if (days.length === 0 && (createdAt.slice(0, 7) > month || isBefore)) continue
    const { credits, calls, refused, notifications, bytes } = days.reduce(addToDay, nothing)
    usage.push({ id, label, plan, state, credits, calls, refused, notifications, bytes })
  }
  const head = ['id', 'label', 'plan', 'state', ...Object.keys(nothing)]
  const rows = usage.map((row) => Object.values(row).map(String))
  const text = isCsv ? csvOf(head, rows) : tableOf(head, rows, 'No subscriptions.')
  return accept({ json: { month, usage }, text })
}

/** The plan as text, and its credits per 30 days; null for no limit. */
function inForce({ plan }: Subscription, limits: Limits) {
  const isKnown = Object.hasOwn(limits, plan)
  const text = isKnown ? plan : `${plan} (unknown plan: ${fallbackPlan} is in force)`
  return { plan: text, limit: limits[isKnown ? plan : fallbackPlan] || null }
}

const ENTRIES_INITIAL = 100

export const auditVerbs: readonly Verb[] = [
  {
    words: ['audit', 'show'],
    api: 'read',
    summary: 'Show the newest changes, of one subscription or of all.',
    examples: ['audit show', 'audit show acme --limit 20'],
    positionals: [{ ...refSpec, optional: true }],
    flags: flagTable(`
    --limit <n 1..1000000>  How many of the newest [${ENTRIES_INITIAL}].`),
    async run(call) {
      const [ref] = call.positionals
      const limit = numberOf(call, 'limit', ENTRIES_INITIAL)
      return withStore(call, (store) => {
        const isNamed = ({ id, label }: Subscription) => id === ref || label === ref
        const subjectOf = (name: string) => store.find(name) ?? store.operators().findLast(isNamed)
        const subject = ref === undefined ? undefined : subjectOf(ref)?.id
        if (ref !== undefined && subject === undefined) return notFound(ref)
        const entries = [...store.audit(subject === undefined ? {} : { subject })].slice(-limit)
        const head = ['seq', 'at', 'who', 'what', 'subject', 'reason'] as const
        const rows = entries.map((entry) => head.map((name) => String(entry[name])))
        return accept({ json: { entries }, text: tableOf(head, rows, 'No changes yet.') })
      })
    },
  },
  {
    words: ['audit', 'verify'],
    api: 'read',
    summary: 'Verify the hash chain and that the records match it; exit 1 if not.',
    examples: ['audit verify'],
    run: (call) =>
      withStore(call, (store) => {
        const report = store.verifyAudit()
        const advice = 'Keep this folder unchanged and restore the last backup to another folder.'
        const text = report.ok
          ? `The chain of ${report.entries} entries is intact. Head: ${report.head}`
          : `BROKEN: ${report.problem}. ${advice}`
        return accept<Report>({ json: report, text, exit: report.ok ? 0 : 1 })
      }),
  },
]
