// One query from the moment a process is there to its last byte. Thread: main.
//
//   process.run(job) --report--> totals, error          whoever reads takes bytes at its own pace;
//        '--bytes--> ResultBytes --chunks()--> reader   cancel, time and memory end it from here
import type { Query, QueryError, QueryOutcome, QueryTotals } from '../engine.ts'
import { codeOf, exception } from '../exceptions.ts'
import { overheadBytes, type QueryProcess } from './query-process.ts'
import type { QueryReport } from './query-protocol.ts'
import type { Snapshot } from './store-files.ts'
import type { QueryWatch, Watched } from './watch.ts'

type EndReason = 'cancel' | 'time' | 'memory'

export interface RunDeps {
  readonly watch: QueryWatch
  /** The process was killed for what the query did. */
  onKilled(reason: 'memory' | 'time' | 'crash'): void
  /** All is over. A process that had to be stopped, or was at its limits, is not used again. */
  onDone(isWorn: boolean): void
}

const crashSignals: ReadonlySet<string | null> = new Set(['SIGABRT', 'SIGTRAP', 'SIGKILL'])

export class QueryRun implements Watched {
  readonly rssBytesMax: number
  readonly timeMsMax: number
  readonly #query: Query
  readonly #process: QueryProcess
  readonly #deps: RunDeps
  readonly #beganMs = performance.now()
  /** Undefined while it runs; null when the process died. */
  #report: QueryReport | null | undefined
  #reason: EndReason | null = null
  /** It was ended while rows were still to come or to be read. */
  #isCut = false
  #isKilled = false
  #isDone = false

  /** `waitedMs` of its time are gone already. */
  constructor(query: Query, process: QueryProcess, waitedMs: number, deps: RunDeps) {
    this.#query = query
    this.#process = process
    this.#deps = deps
    this.timeMsMax = Math.max(1, query.limits.timeMs - waitedMs)
    this.rssBytesMax = Math.min(process.rssBytesMax, query.limits.memoryBytes + overheadBytes)
  }

  /** Resolves with the first bytes, the end, or an error; `stale` when the view must be new. */
  async start(snapshot: Snapshot): Promise<QueryOutcome | 'stale'> {
    const { watch } = this.#deps
    const { bytes } = this.#process
    watch.add(this)
    const { subscription, statement, format, limits, quotes64 } = this.#query
    const job = { subscription, statement, format, limits, quotes64, snapshot }
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
    // An error that is known before the first byte was given away replaces the bytes.
    if (report === undefined || (isComplete(report) && !this.#isCut))
      return { ok: true, result: this.#result() }
    const error = this.#error()
    await this.#finish()
    return error === null
      ? { ok: false, error: exception('UNKNOWN_EXCEPTION', 'the engine gave no answer') }
      : { ok: false, error }
  }

  /** Stops it wherever it is. */
  end(reason: EndReason): void {
    if (this.#isDone || this.#reason !== null) return
    const { bytes } = this.#process
    this.#reason = reason
    this.#isCut = !isComplete(this.#report) || !bytes.isDrained
    this.#deps.watch.told(this)
    this.#process.interrupt()
    bytes.discard()
  }

  rssBytes(): number {
    return this.#process.rssBytes()
  }

  isReaderSlow(): boolean {
    return this.#process.bytes.isFull
  }

  onLate(): void {
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
      // A reader that stops early wants no more of it.
      if (this.#report === undefined && !this.#process.isGone) this.end('cancel')
      await this.#finish()
    }
  }

  /** Waits until the process is at rest or gone. */
  async #finish(): Promise<void> {
    const { bytes } = this.#process
    if (!bytes.isWhole) bytes.discard()
    while (!this.#process.isGone && !(this.#report !== undefined && bytes.isWhole))
      await bytes.change()
    if (this.#isDone) return
    this.#isDone = true
    this.#deps.watch.remove(this)
    if (this.#process.isGone && this.#reason !== 'cancel')
      this.#deps.onKilled(this.#isKilled && this.#reason !== null ? this.#reason : 'crash')
    const isOver = this.#report?.error?.code === codeOf.MEMORY_LIMIT_EXCEEDED
    this.#deps.onDone(isOver || this.#reason === 'time')
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
    return crashSignals.has(this.#process.signal)
      ? exception('MEMORY_LIMIT_EXCEEDED', 'the query needs more memory than it may have')
      : exception('UNKNOWN_EXCEPTION', 'the process of the query ended')
  }

  #totals(): QueryTotals {
    return {
      rows: this.#report?.rows ?? 0,
      bytes: this.#report?.bytes ?? this.#process.bytes.received,
      elapsedMs: performance.now() - this.#beganMs,
    }
  }
}

/** A stale view gave no rows at all: ended by a cancel or a deadline, it is not an empty result. */
function isComplete(report: QueryReport | null | undefined): boolean {
  return report?.error === null && !report.isStale
}
