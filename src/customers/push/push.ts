// Pushes what waits on disk to the operator's receiver: at least once, each record with an id.
// It stays on disk until the receiver has confirmed it, also over a kill; what is sent again has
// the same ids and bytes.
//
//   usage:   deltas ─► LMDB: sums, and rows by subscription, window, day ─► batch ─► receiver
//   notices: what is due ─► LMDB ─► one at a time          ▲────── removed ◄─┘ confirmed
import { type FileHandle, open } from 'node:fs/promises'
import { resolve } from 'node:path'
import { backoffMs, type Clock } from '../../base/clock.ts'
import { Fault, guarded, isBug, messageOf } from '../../base/errors.ts'
import { faultReport, type Log, LogThrottle } from '../../base/telemetry/log.ts'
import type { Meters } from '../../base/telemetry/meters.ts'
import { postWebhook } from '../../base/transport/webhook.ts'
import type { Store } from '../subscriptions/store.ts'
import { endMsOf, type Subscription } from '../subscriptions/subscription.ts'
import type { Notice, NoticeTable } from '../subscriptions/tables.ts'
import { isoTime, type LostUse, type OpenWindow, type PushBatch } from '../subscriptions/usage.ts'
import type { UsagePushSection, WebhooksSection } from './config.ts'

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

const contentType = 'application/x-ndjson'
/** Records of one request. */
const recordsMax = 1_000

/** Usage in batches of lines. */
export function usageQueue({ take, ...unpushed }: Store['unpushed']): PushQueue {
  return {
    ...unpushed,
    async take() {
      const batch = await take(recordsMax)
      return batch && { id: batch.id, body: linesOf(batch), records: batch.rows.length }
    },
  }
}

/** One record per line; a record has the same id and bytes in every attempt. */
function linesOf({ id, at, rows }: PushBatch): string {
  const lines = rows.map(({ id: subscription, ...use }, index) =>
    JSON.stringify({ id: `${id}-${index}`, at, subscription, ...use }),
  )
  return `${lines.join('\n')}\n`
}

export function receiverOf(
  { url, secret, file }: UsagePushSection,
  clock: Clock,
): Pick<PushDeps, 'send' | 'to'> {
  if (url === '') {
    const path = resolve(file)
    return { to: path, send: ({ body }) => appendLines(path, body) }
  }
  return {
    to: new URL(url).origin,
    send: ({ id, body }, signal) =>
      postWebhook({ url, secret }, { id, type: contentType, body }, { clock, signal }),
  }
}

/**
 * Appends lines and resolves when they are on disk. Opened for every call, so that the file may be
 * moved away, and written at once, so that several processes may share it. What a full disk or a
 * kill has cut off stays a line of its own; its records follow whole.
 */
export async function appendLines(path: string, lines: string): Promise<void> {
  const file = await open(path, 'a+', 0o600)
  try {
    const bytes = Buffer.from((await endsInLine(file)) ? lines : `\n${lines}`)
    const { bytesWritten } = await file.write(bytes)
    if (bytesWritten < bytes.length)
      throw new Fault('usage-file', `${path}: no space for all lines`, { retryable: true })
    await file.datasync()
  } finally {
    await file.close()
  }
}

async function endsInLine(file: FileHandle): Promise<boolean> {
  const { size } = await file.stat()
  if (size === 0) return true
  const { buffer } = await file.read(Buffer.alloc(1), 0, 1, size - 1)
  return buffer[0] === 0x0a
}

// Finds what the operator is to know of: a quota that is nearly or wholly used, a subscription that
// ends soon or has ended; and pushes a notice of each once.
//
//   subscriptions, budgets ─► due ─► not noticed before? ─► LMDB ─► Push, one at a time ─► receiver
//
// Several gateways find the same and send the same ids: a receiver takes each id once.

const lookMs = 10_000
const pushMs = 5_000
const dayMs = 86_400_000
/** An end that was longer ago is no news, as where notices were not configured then. */
const endedMsMax = 7 * dayMs

/** The current 30 days; a `limit` of 0 is none. `limitReached` is the one that refused a call. */
export interface Use extends OpenWindow {
  readonly limit: number
  readonly limitReached: number
}

export interface NoticesDeps {
  readonly section: WebhooksSection
  readonly table: NoticeTable
  subscriptions(): readonly Subscription[]
  useOf(subscription: Subscription): Use
  readonly clock: Clock
  readonly log: Log
}

export class Notices {
  readonly push: Push
  readonly #deps: NoticesDeps
  readonly #timer: NodeJS.Timeout

  constructor(deps: NoticesDeps) {
    const { section, table, clock, log } = deps
    this.#deps = deps
    this.push = new Push({
      ...{ what: 'notices', everyMs: pushMs, clock, log },
      unpushed: queueOf(table),
      to: new URL(section.url).origin,
      send: ({ id, body }, signal) =>
        postWebhook(section, { id, type: 'application/json', body }, { clock, signal }),
    })
    const report = faultReport(log.area('notices'), 'notices could not be stored')
    this.#timer = setInterval(
      guarded(() => this.look(), report),
      lookMs,
    )
    this.push.start()
  }

  /** Stores what is due; the next push sends it. */
  look(): Promise<void> {
    const { section, table, subscriptions, useOf, clock } = this.#deps
    const nowMs = clock.nowMs()
    const all = subscriptions().filter(({ state }) => state !== 'ended')
    return table.add(all.flatMap((one) => dueNotices(one, useOf(one), section, nowMs)))
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.push.stop()
  }
}

export function dueNotices(
  subscription: Subscription,
  { credits, limit, limitReached, startsAtMs, endsAtMs }: Use,
  { quotaPercent, endDays }: Pick<WebhooksSection, 'quotaPercent' | 'endDays'>,
  nowMs: number,
): Notice[] {
  const { id, label, plan, until } = subscription
  const about = { subscription: id, label }
  const [from, to] = [isoTime(startsAtMs), isoTime(endsAtMs)]
  const quotas = [...new Set([quotaPercent, 100])]
    .filter((percent) => limit > 0 && (limitReached === limit || credits * 100 >= limit * percent))
    .map((percent): Notice => {
      const facts = { percent, credits, limit, plan, windowFrom: from, windowTo: to }
      return { id: `${id}/${from}/quota-${percent}-of-${limit}`, type: 'quota', ...about, ...facts }
    })
  if (until === undefined) return quotas
  const leftMs = endMsOf(subscription) - nowMs
  if (leftMs > endDays * dayMs || leftMs < -endedMsMax) return quotas
  const type = leftMs > 0 ? 'ends-soon' : 'ended'
  return [...quotas, { id: `${id}/${until}/${type}`, type, ...about, until }]
}

function queueOf(table: NoticeTable): PushQueue {
  return {
    async take() {
      const next = table.next()
      if (next === null) return null
      const { notice, atMs } = next
      const body = JSON.stringify({ ...notice, at: isoTime(atMs) })
      return { id: notice.id, body: `${body}\n`, records: 1 }
    },
    confirm: ({ id }) => table.sent(id),
    count: () => table.count(),
    // What is not stored is due again.
    lost: () => ({ rows: 0, credits: 0 }),
  }
}

// The meters of usage and notices that are pushed, read at scrape.
// Declared in every start, for docs and boards; where nothing is pushed they have no series.

export function declareUsagePushMeters(meters: Meters, push: Push | null): void {
  meters.gaugeRead(
    'sluice_usage_push_rows',
    'Rows of usage that the receiver has not confirmed',
    () => push?.report().rows,
  )
  meters.gaugeRead(
    'sluice_usage_push_age_seconds',
    'Time since the receiver had confirmed all usage; 0 while none waits',
    () => push && push.report().ageMs / 1000,
  )
  meters.totalRead(
    'sluice_usage_push_records_total',
    'Records of usage that the receiver confirmed',
    () => push?.counts().confirmed,
  )
  meters.totalRead(
    'sluice_usage_push_failures_total',
    'Pushes of usage that failed; all of it is sent again',
    () => push?.counts().failures,
  )
  meters.totalRead(
    'sluice_usage_push_lost_rows_total',
    'Rows of usage that were not kept for the receiver because usage.push.rowsMax were',
    () => push?.report().lostRows,
  )
}

export function declareNoticeMeters(meters: Meters, push: Push | null): void {
  meters.gaugeRead(
    'sluice_webhook_notices_waiting',
    'Notices that the receiver of webhooks.url has not confirmed',
    () => push?.report().rows,
  )
  meters.totalRead(
    'sluice_webhook_failures_total',
    'Notices that could not be sent; they are sent again',
    () => push?.counts().failures,
  )
}
