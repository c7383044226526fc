// Watches running queries from outside: memory, time, and whether an end was listened to.
// Thread: main. A process that goes too far is interrupted or killed; which, is decided here.

/** How the watch sees a running query. */
export interface Watched {
  readonly rssBytesMax: number
  readonly timeMsMax: number
  rssBytes(): number
  /** The reader is slow: its time is not the query's. */
  isReaderSlow(): boolean
  /** Time is up: the engine is asked to give up. */
  onLate(): void
  /** Too much memory, or it did not listen: killed at once. */
  onKill(reason: 'memory' | 'time'): void
}

interface Entry {
  readonly watched: Watched
  spentMs: number
  slowMs: number
  /** When it was told to end. */
  toldAtMs: number | null
}

const tickMs = 20
/** What is told to end has this long to do so. */
const listenMs = 500
/** A reader may be this slow in all. */
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
    this.#entries.set(watched, { watched, spentMs: 0, slowMs: 0, toldAtMs: null })
    if (this.#timer !== null) return
    this.#lastMs = this.#nowMs()
    this.#timer = setInterval(() => this.tick(), tickMs)
  }

  /** It was told to end by somebody else: from now on it has to listen. */
  told(watched: Watched): void {
    const entry = this.#entries.get(watched)
    if (entry !== undefined) entry.toldAtMs ??= this.#nowMs()
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
    for (const entry of [...this.#entries.values()]) this.#look(entry, nowMs, passedMs)
  }

  #look(entry: Entry, nowMs: number, passedMs: number): void {
    const { watched } = entry
    if (watched.rssBytes() > watched.rssBytesMax) {
      watched.onKill('memory')
      return
    }
    if (watched.isReaderSlow()) entry.slowMs += passedMs
    else entry.spentMs += passedMs
    const isLate = entry.spentMs >= watched.timeMsMax || entry.slowMs >= slowMsMax
    if (isLate && entry.toldAtMs === null) {
      entry.toldAtMs = nowMs
      watched.onLate()
    }
    if (entry.toldAtMs !== null && nowMs - entry.toldAtMs >= listenMs) watched.onKill('time')
  }
}
