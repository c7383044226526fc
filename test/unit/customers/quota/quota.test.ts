import { describe, expect, it, vi } from 'vitest'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { Budget } from '../../../../src/customers/quota/budget.ts'
import { Quota } from '../../../../src/customers/quota/quota.ts'
import {
  type PlanValues,
  standardPlan,
  unlimitedPlan,
} from '../../../../src/customers/subscriptions/plans.ts'
import type { UsageDelta } from '../../../../src/customers/subscriptions/usage.ts'

const dayMs = 86_400_000

function setUp(plans: Record<string, Partial<PlanValues>> = {}) {
  const state = {
    nowMs: 1000,
    written: [] as UsageDelta[],
    used: 0,
    startsAtMs: 0,
    endsAtMs: 30 * dayMs,
    fails: false,
    window: 4,
  }
  const quota = new Quota({
    plans: {
      standard: standardPlan,
      unlimited: unlimitedPlan,
      ...Object.fromEntries(
        Object.entries(plans).map(([name, values]) => [name, { ...standardPlan, ...values }]),
      ),
    },
    ledger: {
      openWindow: () => ({
        window: state.window,
        credits: state.used,
        startsAtMs: state.startsAtMs,
        endsAtMs: state.endsAtMs,
      }),
      addUsage: async (deltas) => {
        if (state.fails) throw new Error('disk full')
        state.written.push(...deltas)
      },
    },
    clock: { nowMs: () => state.nowMs, monotonicMs: () => state.nowMs },
    log: silentLog,
  })
  return { quota, state }
}

const account = { id: 'sub_a', plan: 'standard' }

describe('spending', () => {
  it('charges one budget per subscription, whatever endpoint or machine calls', () => {
    const { quota } = setUp()
    expect(quota.budgetOf(account)).toBe(quota.budgetOf({ ...account }))
    expect(quota.budgetOf(account)).not.toBe(quota.budgetOf({ ...account, id: 'sub_b' }))
  })

  it('admits the burst, then refuses and returns when to retry', () => {
    const { quota, state } = setUp()
    const budget = quota.budgetOf(account)
    for (let count = 0; count < 199; count++) expect(budget.spend('getSlot').ok).toBe(true)
    expect(budget.spend('getSlot')).toEqual({
      ok: true,
      reason: 'ok',
      retryAfterMs: 0,
      limit: 200,
      windowSecs: 2,
      remaining: 0,
      resetSecs: 2,
    })
    expect(budget.spend('getSlot')).toMatchObject({ ok: false, reason: 'rate', retryAfterMs: 10 })
    state.nowMs += 10
    expect(budget.spend('getSlot').ok).toBe(true)
  })

  it.each([
    ['getSlot', 1],
    ['getMultipleAccounts', 2],
    ['getTokenAccountsByOwner', 2],
    ['getTokenAccountsByDelegate', 2],
    ['getTokenAccountBalance', 1],
    ['getTransaction', 5],
    ['getProgramAccounts', 25],
    ['noSuchMethod', 1],
    ['__proto__', 1],
  ])('%s costs %i', (method, cost) => {
    const { quota } = setUp()
    expect(quota.budgetOf(account).spend(method).remaining).toBe(200 - cost)
  })

  it('caps single methods beside their cost', () => {
    const { quota, state } = setUp()
    const budget = quota.budgetOf(account)
    for (let count = 0; count < 5; count++) expect(budget.spend('getProgramAccounts').ok).toBe(true)
    expect(budget.spend('getProgramAccounts')).toMatchObject({
      reason: 'method-rate',
      retryAfterMs: 200,
      remaining: 75,
    })
    expect(budget.spend('getSlot').ok).toBe(true)
    state.nowMs += 200
    expect(budget.spend('getProgramAccounts').ok).toBe(true)
  })

  it('admits or refuses a batch as a whole', () => {
    const { quota } = setUp()
    const budget = quota.budgetOf(account)
    const batch = new Array<string>(90).fill('getSlot')
    expect(budget.spend(batch)).toMatchObject({ ok: true, remaining: 110 })
    expect(budget.spend(batch)).toMatchObject({ ok: true, remaining: 20 })
    expect(budget.spend(batch)).toMatchObject({ ok: false, reason: 'rate', remaining: 20 })
    const sends = new Array<string>(4).fill('sendTransaction')
    expect(budget.spend(sends)).toMatchObject({ ok: true, remaining: 0 })
  })

  it('distinguishes a batch that can never be admitted from one that must wait', () => {
    const { quota } = setUp()
    const budget = quota.budgetOf(account)
    const expensive = new Array<string>(9).fill('getProgramAccounts')
    expect(budget.spend(expensive)).toMatchObject({
      ok: false,
      reason: 'too-expensive',
      retryAfterMs: 0,
    })
    const many = new Array<string>(6).fill('getProgramAccounts')
    expect(budget.spend(many)).toMatchObject({ ok: false, reason: 'too-expensive' })
    expect(budget.spend([])).toMatchObject({ ok: true, remaining: 200 })
  })

  it('refuses when the credits of the 30 days are spent, until the next 30 days', async () => {
    const { quota, state } = setUp({ small: { creditsPer30Days: 10 } })
    state.used = 8
    const budget = quota.budgetOf({ id: 'sub_a', plan: 'small' })
    expect(budget.spend('getMultipleAccounts').ok).toBe(true)
    expect(budget.spend('getSlot')).toMatchObject({
      ok: false,
      reason: 'credits',
      retryAfterMs: 30 * dayMs - 1000,
    })
    state.nowMs = state.endsAtMs
    state.endsAtMs *= 2
    state.used = 0
    await quota.flush()
    expect(quota.budgetOf({ id: 'sub_a', plan: 'small' }).spend('getSlot').ok).toBe(true)
  })

  it('states the limit that refused a call in these 30 days, also with some credits left', async () => {
    const { quota, state } = setUp({ small: { creditsPer30Days: 10 } })
    state.used = 8
    const budget = quota.budgetOf({ id: 'sub_a', plan: 'small' })
    // In use, so that it is kept.
    expect(budget.enter('streams')).toBe(true)
    const use = () => budget.state().window
    expect(budget.spend('getSlot').ok).toBe(true)
    expect(use()).toMatchObject({ credits: 9, limitReached: 0 })
    expect(budget.spend('getBlock')).toMatchObject({ ok: false, reason: 'credits' })
    expect(use()).toMatchObject({ credits: 9, limitReached: 10 })
    state.nowMs = state.endsAtMs
    state.endsAtMs *= 2
    state.used = 0
    await quota.flush()
    expect(use()).toMatchObject({ credits: 0, limitReached: 0 })
  })

  it('returns to the current window when the clock was set forward and back', async () => {
    const { quota, state } = setUp({ small: { creditsPer30Days: 10 } })
    state.used = 10
    const small = { id: 'sub_a', plan: 'small' }
    expect(quota.budgetOf(small).spend('getSlot').ok).toBe(false)
    const month = { ...state }
    Object.assign(state, { nowMs: month.endsAtMs, startsAtMs: month.endsAtMs, used: 0 })
    state.endsAtMs *= 2
    await quota.flush()
    expect(quota.budgetOf(small).spend('getSlot').ok).toBe(true)
    Object.assign(state, { ...month, nowMs: 2000, used: 11 })
    await quota.flush()
    expect(quota.budgetOf(small).spend('getSlot')).toMatchObject({ ok: false, reason: 'credits' })
  })

  it('never refuses on an unlimited plan and still reports a limit', () => {
    const { quota } = setUp()
    const budget = quota.budgetOf({ id: 'sub_a', plan: 'unlimited' })
    for (let count = 0; count < 10_000; count++) budget.spend('getProgramAccounts')
    expect(budget.spend('getSlot')).toMatchObject({ ok: true, limit: 1e9, remaining: 1e9 })
  })

  it('applies a new plan at once, also to budgets in use', () => {
    const { quota } = setUp()
    const budget = quota.budgetOf(account)
    for (let count = 0; count < 200; count++) budget.spend('getSlot')
    quota.refresh({ ...account, plan: 'unlimited' })
    expect(budget.spend('getSlot').ok).toBe(true)
    expect(budget.plan).toBe(unlimitedPlan)
    quota.refresh(account)
    expect(budget.spend('getSlot')).toMatchObject({ ok: true, limit: 200 })
    expect(quota.budgetOf({ ...account, plan: 'gone' }).plan).toBe(standardPlan)
  })
})

describe('permits', () => {
  it.each([
    ['connections', 100],
    ['streams', 20],
    ['queries', 2],
    ['calls', 100],
  ] as const)('%s are bounded by the plan at %i', (kind, max) => {
    const { quota } = setUp()
    const budget = quota.budgetOf(account)
    for (let count = 0; count < max; count++) expect(budget.enter(kind)).toBe(true)
    expect(budget.enter(kind)).toBe(false)
    budget.leave(kind)
    expect(budget.enter(kind)).toBe(true)
  })

  it('throws when a permit is returned twice', () => {
    const { quota } = setUp()
    expect(() => quota.budgetOf(account).leave('calls')).toThrow('returned twice')
    expect(() => quota.budgetOf(account).meter('bytes', -1)).toThrow('usage only grows')
  })
})

describe('flushing usage', () => {
  it('writes the usage since the last flush, once', async () => {
    const { quota, state } = setUp()
    const budget = quota.budgetOf(account)
    budget.spend('getTransaction')
    budget.spend(['getSlot', 'getSlot'])
    budget.spend(new Array<string>(9).fill('getProgramAccounts'))
    budget.meter('bytes', 500)
    budget.meter('notifications', 3)
    await quota.flush()
    await quota.flush()
    expect(state.written).toEqual([
      { id: 'sub_a', window: 4, credits: 7, calls: 3, refused: 1, notifications: 3, bytes: 500 },
    ])
  })

  it('keeps usage that could not be written and retries at the next flush', async () => {
    const { quota, state } = setUp()
    quota.budgetOf(account).spend('getSlot')
    state.fails = true
    await quota.flush()
    expect(quota.flushesFailed).toBe(1)
    quota.budgetOf(account).spend('getSlot')
    state.fails = false
    await quota.stop()
    expect(state.written).toMatchObject([{ credits: 2, calls: 2 }])
  })

  it('opens windows and drops idle budgets also while nothing can be written', async () => {
    const { quota, state } = setUp({ small: { creditsPer30Days: 10 } })
    const spender = { id: 'sub_a', plan: 'small' }
    const budget = quota.budgetOf(spender)
    const resting = quota.budgetOf({ ...account, id: 'sub_b' })
    for (let count = 0; count < 10; count++) budget.spend('getSlot')
    state.fails = true
    await quota.flush()
    state.nowMs = 30 * dayMs
    Object.assign(state, { window: 5, startsAtMs: 30 * dayMs, endsAtMs: 60 * dayMs })
    await quota.flush()
    // The new window has its credits; the old one's use is still to be written, as such.
    expect(quota.budgetOf(spender)).toBe(budget)
    expect(budget.spend('getSlot').ok).toBe(true)
    // Each flush examines a part of the budgets.
    for (let flush = 0; flush < 3; flush++) await quota.flush()
    expect(quota.budgetOf({ ...account, id: 'sub_b' })).not.toBe(resting)
    state.fails = false
    await quota.flush()
    expect(state.written).toMatchObject([
      { window: 4, credits: 10 },
      { window: 5, credits: 1 },
    ])
  })

  it('writes a deferred call once it is not refused, and one that is refused never', async () => {
    const { quota, state } = setUp({ small: { creditsPer30Days: 2 } })
    const budget = quota.budgetOf({ ...account, plan: 'small' })
    budget.spend('query')
    const settle = budget.defer('query')
    budget.spend('query')
    const refuse = budget.defer('query')
    await quota.flush()
    expect(state.written).toEqual([])
    // Both limit meanwhile, also after an exchange with other gateways and beside ten idle minutes.
    quota.learn([{ id: account.id, window: 4, credits: 0 }])
    state.nowMs += 600_000
    await quota.flush()
    expect(quota.budgetOf({ ...account, plan: 'small' })).toBe(budget)
    expect(budget.spend('query')).toMatchObject({ ok: false, reason: 'credits' })
    settle(false)
    refuse(true)
    expect(budget.spend('query').ok).toBe(true)
    await quota.flush()
    const written = state.written.map(({ credits, calls, refused }) => ({
      credits,
      calls,
      refused,
    }))
    expect(written).toEqual([{ credits: 2, calls: 2, refused: 1 }])
  })

  it('drops idle budgets, but never one with an open permit', async () => {
    const { quota, state } = setUp()
    const resting = quota.budgetOf(account)
    const open = quota.budgetOf({ ...account, id: 'sub_b' })
    open.enter('connections')
    state.nowMs += 600_000
    await quota.flush()
    expect(quota.budgetOf(account)).not.toBe(resting)
    expect(quota.budgetOf({ ...account, id: 'sub_b' })).toBe(open)
  })

  it('costs by the budgets that were used, not by all that exist', async () => {
    const { quota, state } = setUp()
    const budgets = Array.from({ length: 5_000 }, (_, index) =>
      quota.budgetOf({ ...account, id: `sub_${index}` }),
    )
    await quota.flush()
    const taken = vi.spyOn(Budget.prototype, 'takePending')
    const examined = vi.spyOn(Budget.prototype, 'isIdle')
    const rolled = vi.spyOn(Budget.prototype, 'isWindowOver')
    budgets[7]!.spend('getSlot')
    budgets[4_000]!.meter('bytes', 3)
    await quota.flush()
    expect(taken).toHaveBeenCalledTimes(2)
    expect(examined.mock.calls.length).toBeLessThanOrEqual(1_000)
    expect(rolled).not.toHaveBeenCalled()
    expect(state.written.map(({ id }) => id)).toEqual(['sub_7', 'sub_4000'])
    vi.restoreAllMocks()
    // Idle ones are still all found, a part of them at each flush.
    state.nowMs += 600_000
    for (let flush = 0; flush < 12; flush++) await quota.flush()
    expect(budgets.some((one) => quota.budgetOf({ ...account, id: one.id }) === one)).toBe(false)
  })

  it('opens the next window of budgets that nobody uses', async () => {
    const { quota, state } = setUp({ small: { creditsPer30Days: 1 } })
    const small = { ...account, plan: 'small' }
    quota.budgetOf(small).enter('connections')
    quota.budgetOf(small).spend('getSlot')
    await quota.flush()
    state.nowMs = 30 * dayMs
    Object.assign(state, { startsAtMs: 30 * dayMs, endsAtMs: 60 * dayMs })
    await quota.flush()
    expect(quota.budgetOf(small).spend('getSlot').ok).toBe(true)
    state.nowMs = 60 * dayMs
    Object.assign(state, { startsAtMs: 60 * dayMs, endsAtMs: 90 * dayMs })
    await quota.flush()
    await quota.flush()
    expect(quota.budgetOf(small).spend('getSlot').ok).toBe(true)
  })
})
