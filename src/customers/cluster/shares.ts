// Exchanges this gateway's shares of budgets with the ledger, ten times a second in one statement
// for all subscriptions in use. No request waits for it.
//
//   spend ─► Share: granted credits, refilled ─► hot ─► settle: spent, wanted ─► new shares
//   first use ─► advance, and an exchange at once
import type { Rate } from '../../base/bucket.ts'
import type { Clock } from '../../base/clock.ts'
import { isFault } from '../../base/errors.ts'
import type { BudgetLedger, SettledRow, SpentRow } from './ports.ts'
import { Share, type ShareContext } from './share.ts'

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
  #live = 1
  #isAway = true
  #isLost = true
  #answeredMs = Number.NEGATIVE_INFINITY
  #number = 0
  /** The exchange whose answer is missing: it is repeated under its number. */
  #open: { readonly rows: readonly SpentRow[]; readonly shares: readonly Share[] } | null = null
  #settling: Promise<void> | null = null
  #isUrgent = false
  #timer: NodeJS.Timeout | null = null
  #onSettled: (seconds: number) => void = () => {}
  #stats = { failures: 0, rows: 0 }

  constructor(deps: SharesDeps) {
    this.#deps = deps
  }

  get live(): number {
    return this.#live
  }

  get isAway(): boolean {
    return this.#isAway
  }

  get isLost(): boolean {
    return this.#isLost
  }

  /** Milliseconds since the last exchange; infinite before the first. */
  ageMs(): number {
    return this.#deps.clock.monotonicMs() - this.#answeredMs
  }

  /** Failed exchanges and exchanged rows since the start. */
  stats(): Readonly<{ failures: number; rows: number }> {
    return this.#stats
  }

  /** Calls `observe` with the seconds of each exchange. */
  onSettled(observe: (seconds: number) => void): void {
    this.#onSettled = observe
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
    if (!isUrgent || this.#isUrgent || this.#isAway) return
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
    this.#isAway = sinceMs > awayMs
    this.#isLost = sinceMs > lostMs
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
    this.#isAway = false
    this.#isLost = false
    this.#stats.rows += rows.length
    this.#onSettled((nowMs - sentMs) / 1000)
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
        this.#live = Math.max(1, row.sharers)
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
