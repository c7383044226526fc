// Runs one query in a process of the pool, from its start to the last result byte.
//
//   process.run(job) --report--> totals, error          backpressure: the reader sets the pace;
//        '--bytes--> ResultBytes --chunks()--> reader   cancel, timeout and memory limit end it

import { codeOf, exception, type QueryError } from '../clickhouse/exceptions.ts'
import type { Query, QueryOutcome, QueryTotals } from '../engine.ts'
import { overheadBytes, type QueryProcess } from './query-process.ts'
import type { QueryReport } from './query-protocol.ts'
import type { StoreSnapshot } from './store-files.ts'
import type { QueryWatch, Watched } from './watch.ts'

type EndReason = 'cancel' | 'time' | 'memory'

export interface RunDeps {
  readonly watch: QueryWatch
  /** The process was killed, or crashed; `outside` when the query is not the reason. */
  onKilled(reason: 'memory' | 'time' | 'crash' | 'outside'): void
  /** The query is done. A worn process (at its memory limit) is not reused. */
  onDone(isWorn: boolean): void
}

/** A process that gets no more memory ends itself with one of these. */
const abortSignals: ReadonlySet<string | null> = new Set(['SIGABRT', 'SIGTRAP'])
/** Signals from outside: the system's or an operator's. */
const killSignals: ReadonlySet<string | null> = new Set(['SIGKILL', 'SIGTERM', 'SIGINT'])
/** A process killed above this part of its memory limit was killed for its memory. */
const NEAR_LIMIT = 0.8

export class PooledQuery implements Watched {
  readonly rssBytesMax: number
  readonly timeMsMax: number
  readonly #query: Query
  readonly #process: QueryProcess
  readonly #deps: RunDeps
  readonly #beganMs = performance.now()
  /** Undefined while it runs; null when the process died. */
  #report: QueryReport | null | undefined
  #reason: EndReason | null = null
  /** The query was ended before all rows were produced and read. */
  #isCut = false
  #isKilled = false
  #rssBytesSeen = 0
  #isDone = false

  /** `waitedMs` of the query's time limit are already spent. */
  constructor(query: Query, process: QueryProcess, waitedMs: number, deps: RunDeps) {
    this.#query = query
    this.#process = process
    this.#deps = deps
    this.timeMsMax = Math.max(1, query.limits.timeMs - waitedMs)
    this.rssBytesMax = Math.min(process.rssBytesMax, query.limits.memoryBytes + overheadBytes)
  }

  /** Resolves with the first bytes, the end, or an error; `stale` when a new snapshot is needed. */
  async start(snapshot: StoreSnapshot): Promise<QueryOutcome | 'stale'> {
    const { watch } = this.#deps
    const { bytes } = this.#process
    watch.add(this)
    const { id: _, ...query } = this.#query
    const job = { ...query, snapshot }
    void this.#process.run(job).then((report) => {
      this.#report = report
      bytes.expect(report?.bytes ?? bytes.received)
    })
    while (this.#report === undefined && !bytes.hasSome) await bytes.change()
    const report = this.#report
    if (report?.isStale === true && this.#reason === null) {
      watch.remove(this)
      return 'stale'
    }
    // An error that is known before the first byte was passed on replaces the bytes.
    if (report === undefined || (isComplete(report) && !this.#isCut))
      return { ok: true, result: this.#result() }
    const error = this.#error()
    await this.#finish()
    return error === null
      ? { ok: false, error: exception('UNKNOWN_EXCEPTION', 'the engine gave no answer') }
      : { ok: false, error }
  }

  /** Ends the query in whatever state it is. */
  end(reason: EndReason): void {
    if (this.#isDone || this.#reason !== null) return
    const { bytes } = this.#process
    this.#reason = reason
    this.#isCut = !isComplete(this.#report) || !bytes.isDrained
    this.#deps.watch.endRequested(this)
    this.#process.interrupt()
    bytes.discard()
  }

  rssBytes(): number {
    const bytes = this.#process.rssBytes()
    this.#rssBytesSeen = Math.max(this.#rssBytesSeen, bytes)
    return bytes
  }

  isReaderSlow(): boolean {
    return this.#process.bytes.isFull
  }

  onTimeout(): void {
    this.end('time')
  }

  onKill(reason: 'memory' | 'time'): void {
    if (this.#isKilled) return
    this.#isKilled = true
    this.#reason ??= reason
    this.#process.kill()
  }

  #result() {
    return {
      chunks: this.#chunks(),
      failed: () => this.#error(),
      totals: () => this.#totals(),
    }
  }

  async *#chunks(): AsyncGenerator<Uint8Array> {
    try {
      for (;;) {
        const chunk = await this.#process.bytes.next()
        if (chunk === null) break
        yield chunk
      }
    } finally {
      // A reader that stops early cancels the query.
      if (this.#report === undefined && !this.#process.isGone) this.end('cancel')
      await this.#finish()
    }
  }

  /** Waits until the process is idle or gone. */
  async #finish(): Promise<void> {
    const { bytes } = this.#process
    if (!bytes.isWhole) bytes.discard()
    while (!this.#process.isGone && !(this.#report !== undefined && bytes.isWhole))
      await bytes.change()
    if (this.#isDone) return
    this.#isDone = true
    this.#deps.watch.remove(this)
    if (this.#process.isGone && this.#reason !== 'cancel') this.#deps.onKilled(this.#deathReason())
    this.#deps.onDone(this.#report?.error?.code === codeOf.MEMORY_LIMIT_EXCEEDED)
  }

  /** Why the process is gone. */
  #deathReason(): 'memory' | 'time' | 'crash' | 'outside' {
    if (this.#isKilled && (this.#reason === 'memory' || this.#reason === 'time'))
      return this.#reason
    const { signal } = this.#process
    const isNear = this.#rssBytesSeen >= NEAR_LIMIT * this.rssBytesMax
    if (abortSignals.has(signal) || (killSignals.has(signal) && isNear)) return 'memory'
    return killSignals.has(signal) ? 'outside' : 'crash'
  }

  #error(): QueryError | null {
    const report = this.#report
    if (isComplete(report) && !this.#isCut) return null
    switch (this.#reason) {
      case 'cancel':
        return exception('QUERY_WAS_CANCELLED', 'the query was cancelled')
      case 'time':
        return exception(
          'TIMEOUT_EXCEEDED',
          `the query ran longer than ${this.#query.limits.timeMs} ms`,
        )
      case 'memory':
        return exception('MEMORY_LIMIT_EXCEEDED', 'the query needs more memory than it may have')
      default:
        break
    }
    if (report !== undefined && report !== null) return report.error
    if (!this.#process.isGone) return null
    switch (this.#deathReason()) {
      case 'memory':
        return exception('MEMORY_LIMIT_EXCEEDED', 'the query needs more memory than it may have')
      case 'outside':
        return exception(
          'CANNOT_CREATE_CHILD_PROCESS',
          'the process of the query was ended from outside; send the query again',
        )
      default:
        return exception('UNKNOWN_EXCEPTION', 'the process of the query ended')
    }
  }

  #totals(): QueryTotals {
    const report = this.#report
    return {
      rows: report?.rows ?? 0,
      bytes: report?.bytes ?? this.#process.bytes.received,
      elapsedMs: performance.now() - this.#beganMs,
      ...(report && { readRows: report.readRows }),
    }
  }
}

/** A stale snapshot produced no rows; a cancel or timeout then must not become an empty result. */
function isComplete(report: QueryReport | null | undefined): boolean {
  return report?.error === null && !report.isStale
}
