// Sends this gateway's usage to the cluster and learns the cluster's totals.
// Usage is on disk until PostgreSQL has confirmed it, and is exact afterwards, whatever ends in
// between: a batch whose answer was lost is sent again under its number, also by the next process.
//
//   quota: deltas every 500 ms ─► LMDB: rows ─► batch n ─► PostgreSQL: sums
//   quota, LMDB ◄─ totals of all gateways ◄──────────────────┘
import type { Clock } from '../../base/clock.ts'
import { isBug, messageOf } from '../../base/errors.ts'
import { type Log, LogThrottle } from '../../base/telemetry/log.ts'
import type { Ledger } from '../quota/quota.ts'
import type { Store } from '../subscriptions/store.ts'
import type { OpenWindow, UsageDelta, WindowTotal } from '../subscriptions/usage.ts'
import type { postgresUsage } from './postgres/tables.ts'

export interface SharedUsageDeps {
  readonly usage: Pick<ReturnType<typeof postgresUsage>, 'use'>
  readonly store: Pick<Store, 'openWindow' | 'unsent'>
  /** Unique to this process: its batches are numbered under it. */
  readonly session: string
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
  #number = 0
  #sending: Promise<void> | null = null
  #timer: NodeJS.Timeout | null = null
  /** Whether usage was added since the last look. */
  #isDue = false
  #isStopped = false
  /** Calls `learn` with the credits of all gateways, including those not sent yet by this one. */
  onTotals: (totals: readonly WindowTotal[]) => void = () => {}

  /** Sends what the process before left. */
  constructor(deps: SharedUsageDeps) {
    this.#deps = deps
    this.#log = deps.log.area('cluster')
    void this.#send()
  }

  openWindow(id: string): OpenWindow {
    const { store } = this.#deps
    const open = store.openWindow(id)
    return { ...open, credits: open.credits + store.unsent.credits(id, open.window) }
  }

  /** Takes the usage; resolves when it is on disk. */
  async addUsage(deltas: readonly UsageDelta[]): Promise<void> {
    await this.#deps.store.unsent.add(deltas)
    void this.#send()
  }

  /** Rows that PostgreSQL has not confirmed. */
  unconfirmed(): number {
    return this.#deps.store.unsent.count()
  }

  /** Sends the rest, as long as PostgreSQL answers. */
  async stop(): Promise<void> {
    const limit = new Promise<void>((resolve) => setTimeout(resolve, stopMs).unref())
    await Promise.race([this.#send(), limit])
    this.#isStopped = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    const rows = this.unconfirmed()
    if (rows > 0) this.#log.warn('usage waits on disk: it is sent after the next start', { rows })
  }

  /** One at a time; a call meanwhile is followed by another one. */
  #send(): Promise<void> {
    this.#isDue = true
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = null
      if (this.#isDue && this.#timer === null && !this.#isStopped) void this.#send()
    })
    return this.#sending
  }

  async #sendAll(): Promise<void> {
    const { usage, store, session, clock } = this.#deps
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    try {
      while (!this.#isStopped) {
        this.#isDue = false
        const batch = await store.unsent.take(rowsMax, { session, number: this.#number + 1 })
        if (batch === null && this.#isDue) continue
        if (batch === null) return
        if (batch.session === session) this.#number = batch.number
        const totals = await usage.use(batch)
        // The registry may be closed: the next process sends it again, and it counts once.
        if (this.#isStopped) return
        const valid = totals.filter(({ credits }) => Number.isFinite(credits))
        await store.unsent.confirm(valid)
        this.onTotals(valid.map((total) => this.#withWaiting(total)))
      }
    } catch (error) {
      if (isBug(error)) throw error
      if (this.#isStopped) return
      if (this.#throttle.allows('usage', clock.monotonicMs()))
        this.#log.warn('usage waits for PostgreSQL', { reason: messageOf(error) })
      this.#timer = setTimeout(() => void this.#send(), retryMs)
    }
  }

  #withWaiting({ id, window, credits }: WindowTotal): WindowTotal {
    return { id, window, credits: credits + this.#deps.store.unsent.credits(id, window) }
  }
}
