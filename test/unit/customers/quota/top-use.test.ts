import { describe, expect, test } from 'vitest'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { Meters } from '../../../../src/base/telemetry/meters.ts'
import { declareCustomerMeters } from '../../../../src/customers/quota/meters.ts'
import { Quota, TopUse, topMax } from '../../../../src/customers/quota/quota.ts'
import { builtInPlans } from '../../../../src/customers/subscriptions/plans.ts'
import { findTool, lint } from '../../../testkit/promtool.ts'

const nothing = { credits: 0, calls: 0, refused: 0, notifications: 0, bytes: 0 }
const delta = (id: string, credits: number) => ({ ...nothing, id, window: 0, credits, calls: 1 })

describe('the top of use', () => {
  test('is that of a full count, and other never shrinks, whatever the order', () => {
    let seed = 7
    const random = (max: number) => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
      return seed % max
    }
    const use = new TopUse()
    const totals = new Map<string, number>()
    let calls = 0
    let other = 0
    let hasShrunk = false
    for (let turn = 0; turn < 20_000; turn++) {
      const id = `sub_${random(1 + random(300))}`
      const credits = random(10)
      use.count(delta(id, credits))
      totals.set(id, (totals.get(id) ?? 0) + credits)
      calls++
      hasShrunk ||= use.other.calls < other
      other = use.other.calls
    }
    expect(hasShrunk).toBe(false)
    const most = [...totals.values()].sort((a, b) => b - a).slice(0, topMax)
    const top = [...use.top()]
    expect(top.map(([, { credits }]) => credits).sort((a, b) => b - a)).toEqual(most)
    for (const [id, { credits }] of top) expect(credits).toBe(totals.get(id))
    expect(use.other.calls).toBeLessThan(calls)
  })

  test('is entered by one credit more than the least has, and not by as many', () => {
    const use = new TopUse()
    for (let number = 0; number < topMax; number++) use.count(delta(`sub_${number}`, 5 + number))
    use.count(delta('late', 5))
    expect([...use.top()].map(([id]) => id)).not.toContain('late')
    use.count(delta('late', 1))
    const ids = [...use.top()].map(([id]) => id)
    expect([ids.length, ids.includes('late'), ids.includes('sub_0')]).toEqual([topMax, true, false])
    expect(use.other).toMatchObject({ credits: 5, calls: 1 })
  })

  test('has every subscription, and other at zero, while there are few', () => {
    const use = new TopUse()
    use.count(delta('a', 0))
    use.count(delta('a', 3))
    expect([...use.top()]).toEqual([['a', { ...nothing, credits: 3, calls: 2 }]])
    expect(use.other).toEqual(nothing)
  })
})

/** Subscriptions that spend, the one with the highest number most. */
async function spent(count: number) {
  let nowMs = 1
  const quota = new Quota({
    plans: { ...builtInPlans, unlimited: { ...builtInPlans.unlimited!, creditsPer30Days: 0 } },
    ledger: {
      openWindow: () => ({ window: 0, credits: 5, startsAtMs: 0, endsAtMs: 1e15 }),
      addUsage: async () => {},
    },
    clock: { nowMs: () => nowMs, monotonicMs: () => nowMs },
    log: silentLog,
  })
  for (let number = count; number > 0; number--) {
    const budget = quota.budgetOf({ id: `sub_${number}`, plan: 'unlimited' })
    for (let calls = 0; calls < number; calls++) budget.spend('getSlot')
    budget.enter('streams')
  }
  nowMs++
  await quota.flush()
  const meters = new Meters()
  const plan = 'unlimited'
  declareCustomerMeters(meters, quota, (id) => (id === 'sub_60' ? null : { id, plan }))
  return { quota, meters }
}

describe('the meters of customers', () => {
  test('have a bounded number of series, labelled by id, and other for the rest', async () => {
    const { meters } = await spent(60)
    const { body } = await meters.render('text')
    const series = (name: string) => body.match(new RegExp(`^${name}{`, 'gm'))?.length ?? 0
    expect(series('sluice_subscription_calls_total')).toBe(topMax + 1)
    expect(body).toContain('sluice_subscription_calls_total{subscription="sub_60"} 60\n')
    expect(body).toContain('sluice_subscription_calls_total{subscription="other"} 55\n')
    expect(body).not.toContain('"sub_10"')
    expect(series('sluice_subscription_open')).toBe(topMax * 5)
    expect(body).toContain('sluice_subscription_open{subscription="other",kind="streams"} 11\n')
    // Of an unlimited plan there is none, and one without a record has no window.
    expect(series('sluice_subscription_window_credits_limit')).toBe(0)
    expect(series('sluice_subscription_window_credits')).toBe(topMax - 1)
    for (const { labels } of meters.declared) expect(labels).toContain('subscription')
  })

  const promtool = findTool('promtool')
  test.skipIf(promtool === null)('have no lint findings (needs promtool)', async () => {
    const { meters } = await spent(2)
    expect(lint(promtool!, (await meters.render('text')).body)).toBe('')
  })
})
