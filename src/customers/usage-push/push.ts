// Pushes this gateway's usage to a billing system as NDJSON: at least once, each record with an id.
// What is counted goes to disk in one transaction with what will be pushed, and stays there until
// the receiver has confirmed it, also over a kill: a batch that is sent again has the same ids.
//
//   quota: deltas ─► LMDB: sums, and rows by subscription, window, day ─► batch ─► receiver
//                                                               ▲────── removed ◄─┘ confirmed
import { isBug } from '../../base/assert.ts'
import { backoffMs } from '../../base/backoff.ts'
import type { Clock } from '../../base/clock.ts'
import { messageOf } from '../../base/errors.ts'
import { guarded } from '../../base/guard.ts'
import { faultReport, type Log, LogThrottle } from '../../base/telemetry/log.ts'
import type { Store } from '../subscriptions/store.ts'
import type { PushBatch } from '../subscriptions/usage.ts'

export interface UsagePushDeps {
  readonly unpushed: Pick<Store['unpushed'], 'take' | 'confirm' | 'count' | 'lost'>
  /** Resolves when the receiver has the batch for good. */
  readonly send: (batch: SentBatch, signal: AbortSignal) => Promise<void>
  /** The receiver in words, without secrets. */
  readonly to: string
  readonly everyMs: number
  readonly clock: Clock
  readonly log: Log
}

export interface SentBatch {
  readonly id: string
  /** One JSON object per line. */
  readonly body: string
}

export interface UsagePushReport {
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

/** Records of one request. */
const recordsMax = 1_000
const retryMsMax = 60_000
/** At the end of the process: how long to wait for the last batches. */
const stopMs = 2_000

export class UsagePush {
  readonly #deps: UsagePushDeps
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

  constructor(deps: UsagePushDeps) {
    this.#deps = deps
    this.#log = deps.log.area('usage')
    this.#emptyAtMs = deps.clock.monotonicMs()
  }

  start(): void {
    const report = faultReport(this.#log, 'usage push failed')
    this.#timer ??= setInterval(
      guarded(() => this.tick(), report),
      this.#deps.everyMs,
    )
  }

  /** Records that the receiver confirmed, and pushes that failed, since the start. */
  counts(): { readonly confirmed: number; readonly failures: number } {
    return { confirmed: this.#confirmed, failures: this.#failures }
  }

  report(): UsagePushReport {
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
    if (rows > 0) this.#log.warn('usage waits on disk: it is pushed after the next start', { rows })
  }

  async #push(): Promise<void> {
    const { unpushed, send, clock } = this.#deps
    try {
      while (!this.#isStopped) {
        const batch = await unpushed.take(recordsMax)
        if (batch === null) break
        await send({ id: batch.id, body: linesOf(batch) }, this.#abort.signal)
        // The registry may be closed: the next process sends it again, under the same ids.
        if (this.#isStopped) return
        await unpushed.confirm()
        this.#confirmed += batch.rows.length
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
      this.#log.warn('usage waits for its receiver', { reason: problem })
  }
}

/** One record per line; a record has the same id and bytes in every attempt. */
function linesOf({ id, at, rows }: PushBatch): string {
  const lines = rows.map(({ id: subscription, ...use }, index) =>
    JSON.stringify({ id: `${id}-${index}`, at, subscription, ...use }),
  )
  return `${lines.join('\n')}\n`
}
