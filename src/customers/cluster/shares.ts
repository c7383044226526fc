// Exchanges this gateway's shares of budgets with the ledger, ten times a second in one statement
// for all subscriptions in use. No request waits for it.
//
//   spend ─► Share: granted credits, refilled ─► hot ─► settle: spent, wanted ─► new shares
//   first use ─► advance, and an exchange at once
import type { Limiter, Rate } from '../../base/bucket.ts'
import type { Clock } from '../../base/clock.ts'
import { isFault } from '../../base/errors.ts'
import type { BudgetLedger, SettledRow, SpentRow } from './ports.ts'

export const exchangeMs = 100
/** Rows of one exchange; the hottest first, the others in the next ones. */
const rowsMax = 100
/** Without an answer for this long, shares refill on without an exchange. */
const awayMs = 1_000
/** Without an answer for this long, a subscription without a share has its whole plan. */
const lostMs = 2_000
/** Subscriptions in use elsewhere, or with a debt, that are remembered. */
const knownMax = 100_000
/** The ledger announces a subscription in use every second. */
const announcedMs = 2_500

interface Known {
  readonly debt: number
  readonly atMs: number
  readonly hotMs: number
}

export interface SharesDeps {
  readonly ledger: BudgetLedger
  readonly clock: Clock
}

export class Shares implements ShareContext {
  readonly #deps: SharesDeps
  readonly #hot = new Set<Share>()
  readonly #known = new Map<string, Known>()
  live = 1
  isAway = true
  isLost = true
  #answeredMs = Number.NEGATIVE_INFINITY
  #number = 0
  /** The exchange whose answer is missing: it is repeated under its number. */
  #open: { readonly rows: readonly SpentRow[]; readonly shares: readonly Share[] } | null = null
  #settling: Promise<void> | null = null
  #isUrgent = false
  #timer: NodeJS.Timeout | null = null
  /** Calls `observe` with the seconds of each exchange. */
  onSettled: (seconds: number) => void = () => {}
  #stats = { failures: 0, rows: 0 }

  constructor(deps: SharesDeps) {
    this.#deps = deps
  }

  /** Milliseconds since the last exchange; infinite before the first. */
  ageMs(): number {
    return this.#deps.clock.monotonicMs() - this.#answeredMs
  }

  /** Failed exchanges and exchanged rows since the start. */
  stats(): Readonly<{ failures: number; rows: number }> {
    return this.#stats
  }

  bucketOf(id: string, rate: Rate): Share {
    return new Share(id, rate, this)
  }

  debtElsewhere(id: string, perMs: number, nowMs: number) {
    const known = this.#known.get(id)
    if (known === undefined) return null
    const debt = Math.max(0, known.debt - perMs * (nowMs - known.atMs))
    return { debt, isHot: nowMs - known.hotMs < announcedMs }
  }

  onUse(share: Share, isUrgent: boolean): void {
    this.#hot.add(share)
    if (!isUrgent || this.#isUrgent || this.isAway) return
    this.#isUrgent = true
    if (this.#settling === null) setImmediate(() => void this.tick())
  }

  /** Resolves after the first exchange, or its failure. */
  start(): Promise<void> {
    this.#timer = setInterval(() => void this.tick(), exchangeMs)
    return this.tick()
  }

  /** Reports the rest, as far as PostgreSQL answers at once. */
  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
    await this.tick()
  }

  /** One exchange at a time; a first use meanwhile is exchanged right after it. */
  tick(): Promise<void> {
    const sinceMs = this.#deps.clock.monotonicMs() - this.#answeredMs
    this.isAway = sinceMs > awayMs
    this.isLost = sinceMs > lostMs
    this.#settling ??= this.#settle().finally(() => {
      this.#settling = null
      if (this.#isUrgent && this.#timer !== null) setImmediate(() => void this.tick())
    })
    return this.#settling
  }

  async #settle(): Promise<void> {
    this.#isUrgent = false
    const { ledger, clock } = this.#deps
    if (this.#open === null) this.#pick()
    const { rows, shares } = this.#open!
    const sentMs = clock.monotonicMs()
    let settled: readonly SettledRow[]
    try {
      settled = await ledger.settle(this.#number, rows)
    } catch (error) {
      if (!isFault(error)) throw error
      this.#stats.failures++
      this.#isUrgent = false
      return
    }
    const nowMs = clock.monotonicMs()
    this.#open = null
    this.#answeredMs = nowMs
    this.isAway = false
    this.isLost = false
    this.#stats.rows += rows.length
    this.onSettled((nowMs - sentMs) / 1000)
    this.#apply(settled, new Map(shares.map((share) => [share.id, share])), nowMs)
  }

  /** Chooses what the next exchange reports. */
  #pick(): void {
    const nowMs = this.#deps.clock.monotonicMs()
    for (const share of this.#hot) if (!share.isHot(nowMs)) this.#hot.delete(share)
    const all = [...this.#hot]
    if (all.length > rowsMax) all.sort((a, b) => b.pressure - a.pressure)
    const shares = all.slice(0, rowsMax)
    this.#number++
    this.#open = { rows: shares.map((share) => share.report(nowMs)), shares }
  }

  #apply(settled: readonly SettledRow[], shares: ReadonlyMap<string, Share>, nowMs: number): void {
    for (const row of settled) {
      if (row.kind === 'live') {
        this.live = Math.max(1, row.sharers)
        continue
      }
      const isMine = row.kind === 'mine'
      if (isMine) shares.get(row.id)?.settled(row, nowMs)
      const hotMs = !isMine && row.sharers > 0 ? nowMs : Number.NEGATIVE_INFINITY
      if (this.#known.size >= knownMax) this.#known.clear()
      this.#known.set(row.id, { debt: row.debt, atMs: nowMs, hotMs })
    }
  }
}

// This gateway's share of one subscription's budget.
// Between two exchanges it is plain arithmetic: granted credits that refill at a share of the rate.
// In any period the shares of all gateways together admit at most burst + rate x time, and a few
// percent of the burst; while PostgreSQL is away each gateway has its last share of the plan.

/** What the shares of a gateway have in common; shares.ts implements it. */
export interface ShareContext {
  /** Gateways that exchange now. */
  readonly live: number
  /** True while PostgreSQL does not answer. */
  readonly isAway: boolean
  /** True while it has not answered for so long that shares of others are void. */
  readonly isLost: boolean
  /** The debt of a subscription that others use or used; null when it is not known to be used. */
  debtElsewhere(id: string, perMs: number, nowMs: number): { debt: number; isHot: boolean } | null
  /** Called at each use: the share is exchanged in the next tick, or at once. */
  onUse(share: Share, isUrgent: boolean): void
}

/** A grant is void this long after its exchange, here and in the ledger. */
const grantMs = 2_000
/** A share refills this long after its exchange: unused ones are not exchanged any more. */
const refillMs = 1_000
/** Part of the burst that all gateways together may admit before their first exchange. */
const unknownPart = 0.02
/** As in base/bucket.ts. */
const roundingCredits = 1e-6

export class Share implements Limiter {
  readonly id: string
  readonly #context: ShareContext
  #perMs: number
  #burst: number
  #level = 0
  #levelMs = 0
  #cap = 0
  #sharers = 0
  /** Of the last exchange; -Infinity before the first. */
  #exchangedMs = Number.NEGATIVE_INFINITY
  #spent = 0
  #wanted = 0
  #sent = 0
  #usedMs = Number.NEGATIVE_INFINITY
  /** Whether some of `#spent` was taken while PostgreSQL did not answer. */
  #hasSpentAway = false

  constructor(id: string, rate: Rate, context: ShareContext) {
    this.id = id
    this.#context = context
    this.#perMs = rate.perSecond / 1000
    this.#burst = rate.burst
  }

  waitMs(cost: number, nowMs: number): number {
    if (cost > this.#burst) return Number.POSITIVE_INFINITY
    const missing = cost - this.#levelAt(nowMs)
    if (missing <= roundingCredits) return 0
    this.#wanted = Math.min(this.#burst, this.#wanted + cost)
    this.#use(nowMs)
    return Math.max(1, missing / this.#perMs)
  }

  take(cost: number, nowMs: number): void {
    this.#level = this.#levelAt(nowMs) - cost
    this.#levelMs = nowMs
    this.#spent += cost
    this.#hasSpentAway ||= this.#isAway
    this.#use(nowMs)
  }

  available(nowMs: number): number {
    return Math.max(0, Math.floor(this.#levelAt(nowMs) + roundingCredits))
  }

  fullInMs(nowMs: number): number {
    const isSettled = this.#spent + this.#sent === 0
    if (isSettled && this.#isVoid(nowMs) && !this.#context.isAway) return 0
    return Math.max(0, this.#burst - this.#levelAt(nowMs)) / this.#perMs
  }

  change(rate: Rate, nowMs: number): void {
    this.#level = Math.min(this.#levelAt(nowMs), rate.burst)
    this.#levelMs = nowMs
    this.#cap = Math.min(this.#cap, rate.burst)
    this.#perMs = rate.perSecond / 1000
    this.#burst = rate.burst
  }

  /** Recently used, or with credits that the ledger does not know of. */
  isHot(nowMs: number): boolean {
    return this.#spent > 0 || this.#wanted > 0 || nowMs - this.#usedMs < refillMs
  }

  /** Credits used and asked for since the last exchange: the hottest are exchanged first. */
  get pressure(): number {
    return this.#spent + this.#wanted
  }

  /** Takes what the next exchange reports; `settled` ends it. */
  report(nowMs: number): SpentRow {
    this.#comeBack(nowMs)
    const row: SpentRow = {
      id: this.id,
      perSecond: this.#perMs * 1000,
      burst: this.#burst,
      spent: this.#spent,
      left: Math.max(0, this.#levelAt(nowMs)),
      wanted: this.#wanted,
    }
    this.#sent = this.#spent
    this.#spent = 0
    this.#wanted = 0
    return row
  }

  /** Takes the new share. What was used since the report is used up of it. */
  settled({ granted, sharers, debt }: SettledRow, nowMs: number): void {
    this.#comeBack(nowMs)
    this.#sent = 0
    this.#level = granted - this.#spent
    this.#levelMs = nowMs
    this.#exchangedMs = nowMs
    this.#sharers = sharers
    // The refill pays the debt: without one, grants are all there is until the next exchange.
    this.#cap = granted + (sharers === 0 ? 0 : debt / sharers)
  }

  #use(nowMs: number): void {
    this.#usedMs = nowMs
    this.#context.onUse(this, this.#exchangedMs <= nowMs - grantMs)
  }

  /**
   * PostgreSQL answers again. The share refilled here meanwhile, which the ledger does not know: of
   * what was spent only that counts which is not refilled yet.
   */
  #comeBack(nowMs: number): void {
    if (!this.#hasSpentAway || this.#isAway) return
    this.#hasSpentAway = false
    this.#level = this.#levelAway(nowMs)
    this.#levelMs = nowMs
    const share = this.#burst / Math.max(1, this.#sharers)
    this.#spent = Math.min(this.#spent, Math.max(0, share - this.#level))
  }

  get #isAway(): boolean {
    const isKnown = this.#exchangedMs > Number.NEGATIVE_INFINITY
    return isKnown ? this.#context.isAway : this.#context.isLost
  }

  #isVoid(nowMs: number): boolean {
    return nowMs - this.#exchangedMs > grantMs
  }

  #levelAt(nowMs: number): number {
    if (this.#isAway) return this.#levelAway(nowMs)
    this.#comeBack(nowMs)
    if (this.#isVoid(nowMs)) this.#advance(nowMs)
    // It was not exchanged meanwhile: what it would have refilled the ledger granted to others.
    else if (nowMs - this.#usedMs >= refillMs) this.#levelMs = nowMs
    const untilMs = Math.min(nowMs, this.#exchangedMs + refillMs)
    const perMs = this.#sharers === 0 ? 0 : this.#perMs / this.#sharers
    return Math.min(this.#cap, this.#level + Math.max(0, untilMs - this.#levelMs) * perMs)
  }

  /** The last share goes on; a subscription without one has the whole plan. */
  #levelAway(nowMs: number): number {
    const isKnown = this.#exchangedMs > Number.NEGATIVE_INFINITY
    const sharers = Math.max(1, this.#sharers)
    if (!isKnown && this.#levelMs === 0) {
      this.#level = this.#burst
      this.#levelMs = nowMs
    }
    const refilled = (Math.max(0, nowMs - this.#levelMs) * this.#perMs) / sharers
    return Math.min(this.#burst / sharers, this.#level + refilled)
  }

  /** Credits before the first exchange: what all others may take at the same time, too. */
  #advance(nowMs: number): void {
    const { live } = this.#context
    const known = this.#context.debtElsewhere(this.id, this.#perMs, nowMs)
    const left = known === null ? this.#burst : Math.max(0, this.#burst - known.debt)
    const part = known?.isHot === true ? Math.min(left, this.#burst * unknownPart) : left
    // What was used of an earlier advance and is not settled yet counts against this one.
    const used = this.#spent + this.#sent
    this.#level = Math.max(0, part / live - used)
    this.#levelMs = nowMs
    this.#cap = this.#level
    this.#sharers = 0
  }
}
