// Keeps one budget per subscription and flushes usage to the registry.
// Flushes every half second, so a crash loses less than a second of usage.
// 30-day windows roll over in the same tick; `spend` itself reads no wall clock.
import type { Clock } from '../../base/clock.ts'
import { guarded, messageOf } from '../../base/errors.ts'
import { faultReport, type Log, LogThrottle } from '../../base/telemetry/log.ts'
import { fallbackPlan, type PlanValues } from '../subscriptions/plans.ts'
import type { Subscription } from '../subscriptions/subscription.ts'
import {
  addToDay,
  type OpenWindow,
  type UsageCounts,
  type UsageDelta,
} from '../subscriptions/usage.ts'
import { Budget, type Entered, enteredKinds, type MakeBucket, noneEntered, Plan } from './budget.ts'

/** The fields of a subscription that a budget needs. */
export type Account = Pick<Subscription, 'id' | 'plan'>

/** Where usage is stored; subscriptions/store.ts implements it. */
export interface Ledger {
  openWindow(id: string): OpenWindow
  addUsage(deltas: readonly UsageDelta[]): Promise<void>
}

export interface QuotaDeps {
  readonly plans: Readonly<Record<string, PlanValues>>
  readonly ledger: Ledger
  readonly clock: Clock
  readonly log: Log
  /** Makes a budget's bucket; one gateway alone has the whole rate. */
  readonly makeBucket?: MakeBucket | undefined
}

export const usageFlushMs = 500
/** A full budget that was not used for this long is dropped. */
const idleMs = 600_000
/** Budgets that one flush examines for being idle: a flush must not cost by all that exist. */
const idleChecksMax = 1_000

export class Quota {
  readonly #deps: QuotaDeps
  readonly #log: Log
  readonly #throttle = new LogThrottle()
  readonly #plans: ReadonlyMap<string, Plan>
  readonly #budgets = new Map<string, Budget>()
  /** Budgets with usage that is not flushed. */
  #used = new Set<Budget>()
  readonly #onUse = (budget: Budget) => void this.#used.add(budget)
  #idleChecks = this.#budgets.entries()
  /** No window of a budget ends before this. */
  #windowsEndMs = Number.POSITIVE_INFINITY
  #rolledMs = 0
  #timer: NodeJS.Timeout | null = null
  #flushing: Promise<void> | null = null
  flushesFailed = 0
  /** What was used on this gateway since its start. */
  readonly use = new TopUse()
  /** Usage of flushes that failed, one row per subscription and window; it is flushed first. */
  #unflushed: readonly UsageDelta[] = []

  constructor(deps: QuotaDeps) {
    this.#deps = deps
    this.#log = deps.log.area('quota')
    this.#plans = new Map(
      Object.entries(deps.plans).map(([name, values]) => [name, new Plan(values)]),
    )
  }

  /** The budget, on the subscription's current plan. Call it for each request. */
  budgetOf(account: Account): Budget {
    const plan = this.#planOf(account)
    let budget = this.#budgets.get(account.id)
    if (budget === undefined) {
      const { ledger, clock, makeBucket } = this.#deps
      const window = ledger.openWindow(account.id)
      budget = new Budget(account.id, plan, window, clock, this.#onUse, makeBucket)
      this.#budgets.set(account.id, budget)
      this.#windowsEndMs = Math.min(this.#windowsEndMs, budget.windowEndsAtMs)
    } else budget.changePlan(plan)
    return budget
  }

  /** Takes over the credits that all gateways used, as of now. */
  learn(totals: readonly { id: string; window: number; credits: number }[]): void {
    for (const { id, window, credits } of totals) this.#budgets.get(id)?.learn(window, credits)
  }

  /** Applies a changed plan to a budget in use. */
  refresh(account: Account): void {
    this.#budgets.get(account.id)?.changePlan(this.#planOf(account))
  }

  start(): void {
    const report = faultReport(this.#log, 'usage flush failed')
    this.#timer ??= setInterval(
      guarded(() => this.flush(), report),
      usageFlushMs,
    )
  }

  /** Stops the timer and flushes the rest. */
  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
    await this.#flushing
    await this.flush()
  }

  /** Flushes pending usage; one flush at a time. A failed flush is retried with the next. */
  flush(): Promise<void> {
    this.#flushing ??= this.#flush().finally(() => {
      this.#flushing = null
    })
    return this.#flushing
  }

  /** What all subscriptions together have open here. */
  openNow(): Record<Entered, number> {
    const sums = noneEntered()
    for (const budget of this.#budgets.values()) {
      const { open } = budget.state()
      for (const kind of enteredKinds) sums[kind] += open[kind]
    }
    return sums
  }

  async #flush(): Promise<void> {
    const used = this.#used
    this.#used = new Set()
    const taken = [...used].map((budget) => budget.takePending()).filter((delta) => delta !== null)
    for (const delta of taken) this.use.count(delta)
    const deltas = joined([...this.#unflushed, ...taken])
    this.#unflushed = []
    if (deltas.length > 0)
      try {
        await this.#deps.ledger.addUsage(deltas)
      } catch (error) {
        this.flushesFailed++
        this.#unflushed = deltas
        if (this.#throttle.allows('flush', this.#deps.clock.monotonicMs()))
          this.#log.error('usage flush failed', { reason: messageOf(error) })
      }
    this.#dropIdle()
    this.#rollWindows()
  }

  #dropIdle(): void {
    // The ledger does not know yet what these have used.
    const kept = new Set(this.#unflushed.map(({ id }) => id))
    for (let left = Math.min(idleChecksMax, this.#budgets.size); left > 0; left--) {
      const next = this.#idleChecks.next()
      if (next.done === true) this.#idleChecks = this.#budgets.entries()
      else if (!kept.has(next.value[0]) && next.value[1].isIdle(idleMs))
        this.#budgets.delete(next.value[0])
    }
  }

  /** Reads all budgets only when a window has ended, or when the clock was set back. */
  #rollWindows(): void {
    const nowMs = this.#deps.clock.nowMs()
    const isDue = nowMs >= this.#windowsEndMs || nowMs < this.#rolledMs
    this.#rolledMs = nowMs
    if (!isDue) return
    this.#windowsEndMs = Number.POSITIVE_INFINITY
    for (const [id, budget] of this.#budgets) {
      if (budget.isWindowOver(nowMs)) budget.openWindow(this.#deps.ledger.openWindow(id))
      this.#windowsEndMs = Math.min(this.#windowsEndMs, budget.windowEndsAtMs)
    }
  }

  #planOf(account: Account): Plan {
    const plan = this.#plans.get(account.plan) ?? this.#plans.get(fallbackPlan)
    if (plan === undefined) throw new Error(`invariant broken: no plan ${fallbackPlan}`)
    return plan
  }
}

/** Sums the rows of one subscription and window. */
function joined(deltas: readonly UsageDelta[]): readonly UsageDelta[] {
  const rows = new Map<string, UsageDelta>()
  for (const delta of deltas) {
    const key = `${delta.id} ${delta.window}`
    rows.set(key, { ...delta, ...addToDay(rows.get(key), delta) })
  }
  return [...rows.values()]
}

// Counts the use of each subscription since the start, and keeps the ones that used most.
// Totals only grow, so the top is exact although a count looks at one subscription alone: one that
// passes the least of the top takes its position. Memory: one row per subscription that was used.
// `other` is what was used outside the top at the time: it never shrinks, as a counter must not.

/** Series of customers on the operator API, besides `other`. */
export const topMax = 50

const nothing: UsageCounts = { credits: 0, calls: 0, refused: 0, notifications: 0, bytes: 0 }

export class TopUse {
  readonly #totals = new Map<string, UsageCounts>()
  readonly #top = new Set<string>()
  #least: string | null = null
  other = nothing

  /** Adds what a subscription used. */
  count(delta: UsageDelta): void {
    const { id, window: _, ...counts } = delta
    this.#totals.set(id, addToDay(this.#totals.get(id), counts))
    if (this.#top.has(id)) {
      if (id === this.#least) this.#least = null
      return
    }
    if (this.#top.size < topMax) return void this.#enter(id)
    this.#least ??= this.#leastOfTop()
    // A tie stays as it is: series that come and go are of no use.
    if (this.#credits(id) <= this.#credits(this.#least)) {
      this.other = addToDay(this.other, counts)
      return
    }
    this.#top.delete(this.#least)
    this.#enter(id)
  }

  /** Those that used most, each with its use since the start. */
  *top(): Iterable<readonly [id: string, use: UsageCounts]> {
    for (const id of this.#top) yield [id, this.#totals.get(id)!]
  }

  #enter(id: string): void {
    this.#top.add(id)
    this.#least = null
  }

  #credits(id: string): number {
    return this.#totals.get(id)!.credits
  }

  #leastOfTop(): string {
    return [...this.#top].reduce((least, id) =>
      this.#credits(id) < this.#credits(least) ? id : least,
    )
  }
}
