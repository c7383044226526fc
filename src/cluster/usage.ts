// Sends this gateway's usage to the cluster and learns the cluster's totals.
// Usage waits in memory while PostgreSQL is away, one row per subscription, window and day, and is
// exact afterwards: a batch whose answer was lost is sent again under its number.
//
//   quota: deltas every 500 ms ─► waiting ─► batch n ─► PostgreSQL: sums
//   quota, LMDB ◄─ totals of all gateways ◄──────────────────┘
import type { Clock } from '../base/clock.ts'
import { isFault, messageOf } from '../base/errors.ts'
import type { Ledger } from '../quota/quota.ts'
import type { Store } from '../subscriptions/store.ts'
import { addToDay, dayOf, type OpenWindow, type UsageDelta } from '../subscriptions/usage.ts'
import { type Log, LogThrottle } from '../telemetry/log.ts'
import type { WindowTotal } from './ports.ts'
import type { DayUse, PostgresUsage } from './postgres/usage.ts'

export interface SharedUsageDeps {
  readonly usage: Pick<PostgresUsage, 'use'>
  readonly store: Pick<Store, 'openWindow' | 'setWindows'>
  readonly clock: Clock
  readonly log: Log
}

/** Rows of one batch. */
const rowsMax = 1_000
const retryMs = 500
/** At the end of the process: how long to wait for the last batch. */
const stopMs = 2_000

export class SharedUsage implements Ledger {
  readonly #deps: SharedUsageDeps
  readonly #log: Log
  readonly #throttle = new LogThrottle()
  readonly #waiting = new Map<string, DayUse>()
  #batch: readonly DayUse[] = []
  #number = 0
  #sending: Promise<void> | null = null
  #timer: NodeJS.Timeout | null = null
  #onTotals: (totals: readonly WindowTotal[]) => void = () => {}

  constructor(deps: SharedUsageDeps) {
    this.#deps = deps
    this.#log = deps.log.area('cluster')
  }

  /** Calls `learn` with the credits of all gateways, including those not sent yet by this one. */
  onTotals(learn: (totals: readonly WindowTotal[]) => void): void {
    this.#onTotals = learn
  }

  openWindow(id: string): OpenWindow {
    return this.#deps.store.openWindow(id)
  }

  /** Takes the usage; it is never given back. */
  addUsage(deltas: readonly UsageDelta[]): Promise<void> {
    const day = dayOf(this.#deps.clock.nowMs())
    for (const delta of deltas) {
      const { id, window } = delta
      const key = `${id} ${window} ${day}`
      this.#waiting.set(key, { ...addToDay(this.#waiting.get(key), delta), id, window, day })
    }
    void this.#send()
    return Promise.resolve()
  }

  /** Rows that PostgreSQL has not confirmed. */
  unconfirmed(): number {
    return this.#waiting.size + this.#batch.length
  }

  /** Sends the rest, as long as PostgreSQL answers. */
  async stop(): Promise<void> {
    const limit = new Promise<void>((resolve) => setTimeout(resolve, stopMs).unref())
    await Promise.race([this.#send(), limit])
    if (this.#timer !== null) clearTimeout(this.#timer)
    const rows = this.unconfirmed()
    if (rows > 0) this.#log.error('usage was lost: PostgreSQL did not take it', { rows })
  }

  #send(): Promise<void> {
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = null
    })
    return this.#sending
  }

  async #sendAll(): Promise<void> {
    const { usage, store, clock } = this.#deps
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    try {
      for (;;) {
        if (this.#batch.length === 0) this.#fillBatch()
        if (this.#batch.length === 0) return
        const totals = await usage.use(this.#number, this.#batch, clock.nowMs())
        this.#batch = []
        await store.setWindows(totals)
        this.#onTotals(totals.map((total) => this.#withWaiting(total)))
      }
    } catch (error) {
      if (!isFault(error)) throw error
      if (this.#throttle.allows('usage', clock.monotonicMs()))
        this.#log.warn('usage waits for PostgreSQL', { reason: messageOf(error) })
      this.#timer = setTimeout(() => void this.#send(), retryMs)
    }
  }

  #fillBatch(): void {
    const rows: DayUse[] = []
    for (const [key, row] of this.#waiting) {
      if (rows.length === rowsMax) break
      rows.push(row)
      this.#waiting.delete(key)
    }
    this.#batch = rows
    if (rows.length > 0) this.#number++
  }

  #withWaiting(total: WindowTotal): WindowTotal {
    let { credits } = total
    for (const row of this.#waiting.values())
      if (row.id === total.id && row.window === total.window) credits += row.credits
    return { ...total, credits }
  }
}
