// Limits the use of one subscription, over rpc, websocket and grpc and all its client machines.
// `spend` is atomic: either every limit admits the call or batch and all of them are
// charged, or none is.
import { Bucket, type Limiter, type Rate } from '../../base/bucket.ts'
import type { Clock } from '../../base/clock.ts'
import { assert } from '../../base/errors.ts'
import type { PlanValues } from '../subscriptions/plans.ts'
import type { OpenWindow, UsageDelta } from '../subscriptions/usage.ts'

export type MakeBucket = (id: string, rate: Rate) => Limiter
export type SpendReason = 'ok' | 'rate' | 'method-rate' | 'credits' | 'too-expensive'

/** Reused: the next `spend` of the same budget overwrites it, so read it before then. */
export interface Verdict {
  readonly ok: boolean
  readonly reason: SpendReason
  /** 0 when ok or when waiting would not help. */
  readonly retryAfterMs: number
  /** For RateLimit-Policy: the burst in credits, and the seconds in which it refills. */
  readonly limit: number
  readonly windowSecs: number
  /** For RateLimit: credits left now, and seconds until the burst is full. */
  readonly remaining: number
  readonly resetSecs: number
}

/** Reported as limit and remainder when the plan is unlimited. */
const unlimitedShown = 1_000_000_000

/** What a plan limits by the number that are open at the same time. */
export const enteredKinds = [
  'calls',
  'connections',
  'distinctSubscriptions',
  'streams',
  'queries',
] as const
export type Entered = (typeof enteredKinds)[number]

export function noneEntered(): Record<Entered, number> {
  return { calls: 0, connections: 0, distinctSubscriptions: 0, streams: 0, queries: 0 }
}

/** Why something was refused: a limit of the plan. */
type Limit = Exclude<SpendReason, 'ok'> | Entered | 'notifications'

export class Budget {
  readonly id: string
  readonly #clock: Clock
  #plan: Plan
  #bucket: Limiter | null
  readonly #makeBucket: MakeBucket
  #caps: Bucket[]
  #notifications: NotificationRate | null
  #window: OpenWindow
  /** Those of calls that may still be refused included. */
  #creditsUsed: number
  /** The limit that refused a call in this window, with less than its cost left; 0 without one. */
  #limitReached = 0
  #deferred = 0
  readonly #entered = noneEntered()
  readonly #pending = { credits: 0, calls: 0, refused: 0, notifications: 0, bytes: 0 }
  /** Refusals since the budget exists, by limit. */
  readonly #refusals: { [L in Limit]?: number } = {}
  readonly #sinceMs: number
  readonly #onUse: (budget: Budget) => void
  #isReported = false
  #lastUseMs: number
  readonly #verdict: { -readonly [K in keyof Verdict]: Verdict[K] } = {
    ok: true,
    reason: 'ok',
    retryAfterMs: 0,
    limit: unlimitedShown,
    windowSecs: 1,
    remaining: unlimitedShown,
    resetSecs: 0,
  }

  /** `onUse` is called with the first use after each `takePending`. */
  constructor(
    id: string,
    plan: Plan,
    window: OpenWindow,
    clock: Clock,
    onUse: (budget: Budget) => void = () => {},
    makeBucket: MakeBucket = (_id, rate) => new Bucket(rate),
  ) {
    this.id = id
    this.#clock = clock
    this.#onUse = onUse
    this.#plan = plan
    this.#makeBucket = makeBucket
    this.#bucket = this.#bucketOf(plan)
    this.#caps = capsOf(plan)
    this.#notifications = notificationsOf(plan)
    this.#window = window
    this.#creditsUsed = window.credits
    this.#lastUseMs = clock.monotonicMs()
    this.#sinceMs = clock.nowMs()
    this.#showPolicy()
  }

  get plan(): PlanValues {
    return this.#plan.values
  }

  /** Charges a call, or all calls of a batch, or nothing. */
  spend(methods: string | readonly string[]): Verdict {
    const nowMs = this.#clock.monotonicMs()
    this.#lastUseMs = nowMs
    if (typeof methods !== 'string') return this.#spendBatch(methods, nowMs)
    const { weight, cap } = this.#plan.rule(methods)
    const capBucket = cap === -1 ? null : this.#caps[cap]!
    const capWaitMs = capBucket === null ? 0 : capBucket.waitMs(1, nowMs)
    if (!this.#decide({ cost: weight, capWaitMs, nowMs })) return this.#refuse(nowMs)
    capBucket?.take(1, nowMs)
    return this.#charge({ cost: weight, calls: 1, nowMs })
  }

  /**
   * Takes a call that was just admitted out of the usage: it may still be refused. The function
   * that this returns is called once, with whether it was; a refused call costs no credit, and
   * counts in the rate.
   */
  defer(method: string): (isRefused: boolean) => void {
    const { weight } = this.#plan.rule(method)
    this.#pending.credits -= weight
    this.#pending.calls--
    this.#deferred += weight
    return (isRefused) => {
      this.#deferred -= weight
      if (isRefused) this.#creditsUsed -= weight
      else {
        const pending = this.#pendingNow()
        pending.credits += weight
        pending.calls++
      }
    }
  }

  /** True when the plan has a permit left for one more of this kind. */
  hasPermit(kind: Entered): boolean {
    const max = this.#permitsOf(kind)
    return max === 0 || this.#entered[kind] < max
  }

  /** Takes a permit for one more of this kind; false when the plan's permits are all taken. */
  enter(kind: Entered): boolean {
    if (!this.hasPermit(kind)) return this.#countRefusal(kind)
    this.#entered[kind]++
    return true
  }

  /** Returns the permit. Call it exactly once for every `enter` that returned true. */
  leave(kind: Entered): void {
    assert(this.#entered[kind] > 0, 'a permit was returned twice')
    this.#entered[kind]--
  }

  /** Counts usage without limiting it. */
  meter(kind: 'bytes' | 'notifications', count: number): void {
    assert(count >= 0, 'usage only grows')
    this.#pendingNow()[kind] += count
  }

  /** Charges a notification; false when it is over the plan's rate and the feed must end. */
  chargeNotification(bytes: number): boolean {
    if (this.#notifications?.take(bytes, this.#clock.monotonicMs()) ?? true) return true
    return this.#countRefusal('notifications')
  }

  /** Milliseconds until another feed may be opened; 0 means now. */
  notificationWaitMs(): number {
    return this.#notifications?.waitMs(this.#clock.monotonicMs()) ?? 0
  }

  /** What is used now, on this gateway; `window` has the credits of all. */
  state() {
    const window = { ...this.#window, credits: this.#creditsUsed, limitReached: this.#limitReached }
    return { window, open: this.#entered, refusals: this.#refusals, sinceMs: this.#sinceMs }
  }

  /** Applies another plan from now on; credits already spent stay spent. */
  changePlan(plan: Plan): void {
    if (plan === this.#plan) return
    const nowMs = this.#clock.monotonicMs()
    const next = this.#bucketOf(plan)
    const { creditsPerSecond: perSecond, burst } = plan.values
    if (next !== null && this.#bucket !== null) this.#bucket.change({ perSecond, burst }, nowMs)
    else this.#bucket = next
    this.#plan = plan
    this.#caps = capsOf(plan)
    this.#notifications = notificationsOf(plan)
    this.#showPolicy()
  }

  get windowEndsAtMs(): number {
    return this.#window.endsAtMs
  }

  /** True when the time is after the window, or before it because the clock was set back. */
  isWindowOver(nowMs: number): boolean {
    const { window, startsAtMs, endsAtMs } = this.#window
    return nowMs >= endsAtMs || (window > 0 && nowMs < startsAtMs)
  }

  /** Switches to the current window. Usage not yet flushed counts in it. */
  openWindow(window: OpenWindow): void {
    this.#window = window
    this.#limitReached = 0
    this.#creditsUsed = window.credits + this.#pending.credits + this.#deferred
  }

  /** Takes over the credits that all gateways used in a window, without what is pending here. */
  learn(window: number, credits: number): void {
    if (window !== this.#window.window) return
    this.#creditsUsed = credits + this.#pending.credits + this.#deferred
  }

  /** Takes the usage to flush, or null. */
  takePending(): UsageDelta | null {
    const pending = this.#pending
    this.#isReported = false
    const { credits, calls, refused, notifications, bytes } = pending
    if (credits + calls + refused + notifications + bytes === 0) return null
    const { window } = this.#window
    pending.credits = pending.calls = pending.refused = pending.notifications = pending.bytes = 0
    return { id: this.id, window, credits, calls, refused, notifications, bytes }
  }

  /** True when dropping this budget and recreating it later makes no difference. */
  isIdle(idleMs: number): boolean {
    const nowMs = this.#clock.monotonicMs()
    if (nowMs - this.#lastUseMs < idleMs) return false
    const { bytes, notifications } = this.#pending
    if (bytes + notifications + this.#deferred > 0) return false
    if (Object.values(this.#entered).some((count) => count > 0)) return false
    return this.#bucket === null || this.#bucket.fullInMs(nowMs) === 0
  }

  /** The pending usage, to add to. */
  #pendingNow() {
    if (!this.#isReported) {
      this.#isReported = true
      this.#onUse(this)
    }
    return this.#pending
  }

  #bucketOf(plan: Plan): Limiter | null {
    const { creditsPerSecond: perSecond, burst } = plan.values
    return perSecond === 0 ? null : this.#makeBucket(this.id, { perSecond, burst })
  }

  #permitsOf(kind: Entered): number {
    const { values } = this.#plan
    if (kind === 'calls') return values.callsInFlight
    return kind === 'queries' ? values.indexer.queries : values[kind]
  }

  #spendBatch(methods: readonly string[], nowMs: number): Verdict {
    let cost = 0
    const calls = new Array<number>(this.#caps.length).fill(0)
    for (const method of methods) {
      const { weight, cap } = this.#plan.rule(method)
      cost += weight
      if (cap !== -1) calls[cap]!++
    }
    let capWaitMs = 0
    for (const [cap, count] of calls.entries())
      if (count > 0) capWaitMs = Math.max(capWaitMs, this.#caps[cap]!.waitMs(count, nowMs))
    if (!this.#decide({ cost, capWaitMs, nowMs })) return this.#refuse(nowMs)
    for (const [cap, count] of calls.entries()) if (count > 0) this.#caps[cap]!.take(count, nowMs)
    return this.#charge({ cost, calls: methods.length, nowMs })
  }

  /** Sets reason and wait of the verdict. A cost that can never be admitted takes precedence. */
  #decide(asked: { cost: number; capWaitMs: number; nowMs: number }): boolean {
    const { cost, capWaitMs, nowMs } = asked
    const verdict = this.#verdict
    const rateWaitMs = this.#bucket === null ? 0 : this.#bucket.waitMs(cost, nowMs)
    const monthly = this.#plan.values.creditsPer30Days
    verdict.retryAfterMs = 0
    if (rateWaitMs === Number.POSITIVE_INFINITY || capWaitMs === Number.POSITIVE_INFINITY)
      verdict.reason = 'too-expensive'
    else if (monthly !== 0 && this.#creditsUsed + cost > monthly) {
      verdict.reason = 'credits'
      this.#limitReached = monthly
      verdict.retryAfterMs = Math.max(1, Math.ceil(this.#window.endsAtMs - this.#clock.nowMs()))
    } else if (rateWaitMs > 0 || capWaitMs > 0) {
      verdict.reason = capWaitMs > rateWaitMs ? 'method-rate' : 'rate'
      verdict.retryAfterMs = Math.ceil(Math.max(rateWaitMs, capWaitMs))
    } else verdict.reason = 'ok'
    return verdict.reason === 'ok'
  }

  #charge(spent: { cost: number; calls: number; nowMs: number }): Verdict {
    const { cost, calls, nowMs } = spent
    assert(cost >= 0, 'a call costs no less than nothing')
    this.#bucket?.take(cost, nowMs)
    this.#creditsUsed += cost
    const pending = this.#pendingNow()
    pending.credits += cost
    pending.calls += calls
    this.#verdict.ok = true
    return this.#show(nowMs)
  }

  #refuse(nowMs: number): Verdict {
    this.#verdict.ok = this.#countRefusal(this.#verdict.reason as Limit)
    return this.#show(nowMs)
  }

  #countRefusal(limit: Limit): false {
    this.#pendingNow().refused++
    this.#refusals[limit] = (this.#refusals[limit] ?? 0) + 1
    return false
  }

  #show(nowMs: number): Verdict {
    if (this.#bucket !== null) {
      this.#verdict.remaining = this.#bucket.available(nowMs)
      this.#verdict.resetSecs = Math.ceil(this.#bucket.fullInMs(nowMs) / 1000)
    }
    return this.#verdict
  }

  #showPolicy(): void {
    const { creditsPerSecond, burst } = this.#plan.values
    const isLimited = creditsPerSecond > 0
    this.#verdict.limit = isLimited ? burst : unlimitedShown
    this.#verdict.remaining = this.#verdict.limit
    this.#verdict.windowSecs = isLimited ? Math.max(1, Math.ceil(burst / creditsPerSecond)) : 1
    this.#verdict.resetSecs = 0
  }
}

function notificationsOf({ values }: Plan): NotificationRate | null {
  const { notificationBytesPerSecond: rate } = values
  return rate === 0 ? null : new NotificationRate(rate)
}

/** A cap of n calls a second has a burst of n. */
function capsOf(plan: Plan): Bucket[] {
  return plan.caps.map((calls) => new Bucket({ perSecond: calls, burst: calls }))
}

// Limits the bytes per second of one subscription's notifications.
// A notification over the rate is refused and not charged, so that expensive feeds end and cheap
// ones continue. It still counts against new feeds, so that reopening a feed gains nothing.

/** Blocks arrive in bursts, and so do the updates of a source that catches up after a stall. */
const BURST_SECS = 2

export class NotificationRate {
  readonly #accepted: Bucket
  readonly #all: Bucket

  constructor(bytesPerSecond: number) {
    const rate = { perSecond: bytesPerSecond, burst: bytesPerSecond * BURST_SECS }
    this.#accepted = new Bucket(rate)
    this.#all = new Bucket(rate)
  }

  /** Charges a notification; false when it is over the rate. */
  take(bytes: number, nowMs: number): boolean {
    this.#all.take(bytes, nowMs)
    if (this.#accepted.waitMs(bytes, nowMs) > 0) return false
    this.#accepted.take(bytes, nowMs)
    return true
  }

  /** Milliseconds until a new feed may be opened; 0 means now. */
  waitMs(nowMs: number): number {
    return this.#all.waitMs(0, nowMs)
  }
}

// Looks up the weight and the rate cap of a method in a plan.
// All budgets on a plan share one instance; each budget has its own buckets for the caps.

export interface MethodRule {
  readonly weight: number
  /** Index into `caps`; -1 when the method has no cap. */
  readonly cap: number
}

const defaultWeight = 1

export class Plan {
  readonly values: PlanValues
  /** Calls per second of each cap. */
  readonly caps: readonly number[]
  readonly #weights: readonly Pattern[]
  readonly #caps: readonly Pattern[]
  /** Rules of the exact names in the plan. Names from requests are never stored. */
  readonly #named: ReadonlyMap<string, MethodRule>

  constructor(values: PlanValues) {
    this.values = values
    this.#weights = patternsOf(values.weights)
    this.#caps = patternsOf(values.methodCallsPerSecond)
    this.caps = this.#caps.map(({ value }) => value)
    const named = [...this.#weights, ...this.#caps].filter(({ isPrefix }) => !isPrefix)
    this.#named = new Map(named.map(({ text }) => [text, this.#ruleOf(text)]))
  }

  rule(method: string): MethodRule {
    return this.#named.get(method) ?? this.#ruleOf(method)
  }

  #ruleOf(method: string): MethodRule {
    const weight = this.#weights.find((pattern) => fits(pattern, method))?.value ?? defaultWeight
    return { weight, cap: this.#caps.findIndex((pattern) => fits(pattern, method)) }
  }
}

interface Pattern {
  readonly text: string
  readonly isPrefix: boolean
  readonly value: number
}

/** Exact names first, then the longest prefix: the most specific pattern applies. */
function patternsOf(values: Readonly<Record<string, number>>): Pattern[] {
  const patterns = Object.entries(values).map(([name, value]) => {
    const isPrefix = name.endsWith('*')
    return { text: isPrefix ? name.slice(0, -1) : name, isPrefix, value }
  })
  const rank = (pattern: Pattern) => (pattern.isPrefix ? pattern.text.length : 1_000_000)
  return patterns.sort((a, b) => rank(b) - rank(a))
}

function fits(pattern: Pattern, method: string): boolean {
  return pattern.isPrefix ? method.startsWith(pattern.text) : method === pattern.text
}
