// Enforces memory limit and timeout of running queries from outside their process.
// Thread: main. Over the time limit a query is interrupted, and killed when it does not end within
// the grace period; over the memory limit it is killed at once.

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
  /** When the query was asked to end. */
  endRequestedAtMs: number | null
}

const tickMs = 20
/** Grace period of a query that was asked to end. */
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

  /** The query was asked to end by other code: its grace period starts now. */
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
