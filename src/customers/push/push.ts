// Pushes what waits on disk to the operator's receiver: at least once, each record with an id.
// It stays on disk until the receiver has confirmed it, also over a kill; what is sent again has
// the same ids and bytes.
//
//   usage:   deltas ─► LMDB: sums, and rows by subscription, window, day ─► batch ─► receiver
//   notices: what is due ─► LMDB ─► one at a time          ▲────── removed ◄─┘ confirmed
import { isBug } from '../../base/assert.ts'
import { backoffMs } from '../../base/backoff.ts'
import type { Clock } from '../../base/clock.ts'
import { messageOf } from '../../base/errors.ts'
import { guarded } from '../../base/guard.ts'
import { faultReport, type Log, LogThrottle } from '../../base/telemetry/log.ts'
import type { LostUse } from '../subscriptions/usage.ts'

export interface PushDeps {
  /** Of logs: `usage`, `notices`. */
  readonly what: string
  readonly unpushed: PushQueue
  /** Resolves when the receiver has the batch for good. */
  readonly send: (batch: SentBatch, signal: AbortSignal) => Promise<void>
  /** The receiver in words, without secrets. */
  readonly to: string
  readonly everyMs: number
  readonly clock: Clock
  readonly log: Log
}

/** What is on disk. */
export interface PushQueue {
  /** What was not confirmed, else the next; null when nothing waits. */
  take(): Promise<SentBatch | null>
  confirm(batch: SentBatch): Promise<unknown>
  count(): number
  lost(): LostUse
}

export interface SentBatch {
  readonly id: string
  readonly body: string
  readonly records: number
}

export interface PushReport {
  readonly to: string
  /** Rows that the receiver has not confirmed. */
  readonly rows: number
  /** Since all was confirmed; 0 while nothing is overdue. */
  readonly ageMs: number
  /** Why the last push failed; null after one that worked. */
  readonly problem: string | null
  /** Rows that were not kept for the receiver because `rowsMax` were. */
  readonly lostRows: number
  readonly lostCredits: number
}

const retryMsMax = 60_000
/** At the end of the process: how long to wait for the last batches. */
const stopMs = 2_000

export class Push {
  readonly #deps: PushDeps
  readonly #log: Log
  readonly #throttle = new LogThrottle()
  readonly #abort = new AbortController()
  #timer: NodeJS.Timeout | null = null
  #pushing: Promise<void> | null = null
  #isStopped = false
  #failuresInRow = 0
  #retryAtMs = 0
  #emptyAtMs: number
  #problem: string | null = null
  #confirmed = 0
  #failures = 0

  constructor(deps: PushDeps) {
    this.#deps = deps
    this.#log = deps.log.area(deps.what)
    this.#emptyAtMs = deps.clock.monotonicMs()
  }

  start(): void {
    const report = faultReport(this.#log, 'push failed')
    this.#timer ??= setInterval(
      guarded(() => this.tick(), report),
      this.#deps.everyMs,
    )
  }

  /** Records that the receiver confirmed, and pushes that failed, since the start. */
  counts(): { readonly confirmed: number; readonly failures: number } {
    return { confirmed: this.#confirmed, failures: this.#failures }
  }

  report(): PushReport {
    const { unpushed, to, clock } = this.#deps
    const rows = this.#isStopped ? 0 : unpushed.count()
    const ageMs = rows === 0 ? 0 : clock.monotonicMs() - this.#emptyAtMs
    const lost = this.#isStopped ? { rows: 0, credits: 0 } : unpushed.lost()
    const problem = this.#problem
    return { to, rows, ageMs, problem, lostRows: lost.rows, lostCredits: lost.credits }
  }

  /** A push, unless the last one failed so lately that the receiver is left alone. */
  async tick(): Promise<void> {
    if (this.#deps.clock.monotonicMs() >= this.#retryAtMs) await this.push()
  }

  /** Pushes all that waits, one push at a time. Never rejects for what a receiver does. */
  push(): Promise<void> {
    this.#pushing ??= this.#push().finally(() => {
      this.#pushing = null
    })
    return this.#pushing
  }

  /** Pushes the rest, as long as the receiver answers; what it has not confirmed stays on disk. */
  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer)
    const limit = new Promise<void>((resolve) => setTimeout(resolve, stopMs).unref())
    const last = async () => {
      await this.#pushing
      await this.push()
    }
    await Promise.race([last(), limit])
    const { rows } = this.report()
    this.#isStopped = true
    this.#abort.abort()
    if (rows > 0)
      this.#log.warn(`${this.#deps.what} on disk: pushed after the next start`, { rows })
  }

  async #push(): Promise<void> {
    const { unpushed, send, clock } = this.#deps
    try {
      while (!this.#isStopped) {
        const batch = await unpushed.take()
        if (batch === null) break
        await send(batch, this.#abort.signal)
        // The registry may be closed: the next process sends it again, under the same ids.
        if (this.#isStopped) return
        await unpushed.confirm(batch)
        this.#confirmed += batch.records
      }
      this.#failuresInRow = 0
      this.#retryAtMs = 0
      this.#problem = null
      this.#emptyAtMs = clock.monotonicMs()
    } catch (error) {
      if (isBug(error)) throw error
      if (!this.#isStopped) this.#failed(messageOf(error))
    }
  }

  #failed(problem: string): void {
    const { clock, everyMs } = this.#deps
    const nowMs = clock.monotonicMs()
    this.#failures++
    this.#failuresInRow++
    this.#problem = problem
    const lastMs = Math.max(everyMs, retryMsMax)
    this.#retryAtMs = nowMs + backoffMs(this.#failuresInRow, { firstMs: everyMs, lastMs })
    if (this.#throttle.allows('push', nowMs))
      this.#log.warn(`${this.#deps.what} waiting for the receiver`, { reason: problem })
  }
}
