// Enforces memory limit and timeout of running queries from outside their process, and the back-off
// after a kill. Over the time limit a query is interrupted, and killed when it does
// not end within the grace period; over the memory limit it is killed at once.
import { backoffMs } from '../../base/clock.ts'

/** A running query. */
export interface Watched {
  readonly rssBytesMax: number
  readonly timeMsMax: number
  rssBytes(): number
  /** The reader is slow (backpressure): this time does not count as the query's. */
  isReaderSlow(): boolean
  /** Timeout: the engine is to be interrupted. */
  onTimeout(): void
  /** Over the memory limit, or did not end within the grace period: to be killed. */
  onKill(reason: 'memory' | 'time'): void
}

interface Entry {
  readonly watched: Watched
  spentMs: number
  slowMs: number
  /** When the query was interrupted or cancelled. */
  endRequestedAtMs: number | null
}

const tickMs = 20
/** Grace period of a query that was interrupted or cancelled. */
const graceMs = 500
/** Longest total time a query waits for a slow reader. */
const slowMsMax = 60_000

export class QueryWatch {
  readonly #entries = new Map<Watched, Entry>()
  readonly #nowMs: () => number
  #timer: NodeJS.Timeout | null = null
  #lastMs = 0

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs
  }

  add(watched: Watched): void {
    this.#entries.set(watched, { watched, spentMs: 0, slowMs: 0, endRequestedAtMs: null })
    if (this.#timer !== null) return
    this.#lastMs = this.#nowMs()
    this.#timer = setInterval(() => this.tick(), tickMs)
  }

  /** The query was cancelled by other code: its grace period starts now. */
  endRequested(watched: Watched): void {
    const entry = this.#entries.get(watched)
    if (entry !== undefined) entry.endRequestedAtMs ??= this.#nowMs()
  }

  remove(watched: Watched): void {
    this.#entries.delete(watched)
    if (this.#entries.size > 0 || this.#timer === null) return
    clearInterval(this.#timer)
    this.#timer = null
  }

  tick(): void {
    const nowMs = this.#nowMs()
    const passedMs = nowMs - this.#lastMs
    this.#lastMs = nowMs
    for (const entry of [...this.#entries.values()]) this.#check(entry, nowMs, passedMs)
  }

  #check(entry: Entry, nowMs: number, passedMs: number): void {
    const { watched } = entry
    if (watched.rssBytes() > watched.rssBytesMax) {
      watched.onKill('memory')
      return
    }
    if (watched.isReaderSlow()) entry.slowMs += passedMs
    else entry.spentMs += passedMs
    const isLate = entry.spentMs >= watched.timeMsMax || entry.slowMs >= slowMsMax
    if (isLate && entry.endRequestedAtMs === null) {
      entry.endRequestedAtMs = nowMs
      watched.onTimeout()
    }
    const { endRequestedAtMs } = entry
    if (endRequestedAtMs !== null && nowMs - endRequestedAtMs >= graceMs) watched.onKill('time')
  }
}

const backoff = { firstMs: 1_000, lastMs: 60_000 }
/** A subscription without a kill for this long starts from zero. */
const forgetMs = 300_000
const entriesMax = 10_000

/**
 * Exponential back-off for subscriptions whose queries had to be killed: replacing a process costs
 * the machine far more than the query costs the caller.
 */
export class BackOff {
  readonly #entries = new Map<string, { readonly kills: number; readonly untilMs: number }>()
  readonly #nowMs: () => number

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  /** How long the subscription has to wait; 0 when it may run a query now. */
  waitMs(subscription: string): number {
    const entry = this.#entries.get(subscription)
    return entry === undefined ? 0 : Math.max(0, entry.untilMs - this.#nowMs())
  }

  killed(subscription: string): void {
    const nowMs = this.#nowMs()
    for (const [name, entry] of this.#entries)
      if (nowMs - entry.untilMs > forgetMs) this.#entries.delete(name)
    const kills = (this.#entries.get(subscription)?.kills ?? 0) + 1
    this.#entries.delete(subscription)
    if (this.#entries.size >= entriesMax)
      this.#entries.delete(this.#entries.keys().next().value as string)
    this.#entries.set(subscription, { kills, untilMs: nowMs + backoffMs(kills, backoff) })
  }
}
