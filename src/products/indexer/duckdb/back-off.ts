// Exponential back-off for subscriptions whose queries had to be killed. Thread: main.
// Killing and replacing a process costs the machine far more than the query costs the caller.
import { backoffMs } from '../../../base/backoff.ts'

const backoff = { firstMs: 1_000, lastMs: 60_000 }
/** A subscription without a kill for this long starts from zero. */
const forgetMs = 300_000
const entriesMax = 10_000

interface Entry {
  readonly kills: number
  readonly untilMs: number
}

export class BackOff {
  readonly #entries = new Map<string, Entry>()
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
