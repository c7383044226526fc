// Monotonic time that all threads of the process share, and a watch for steps of the wall clock.
// `performance.now()` counts from the start of each thread, so it cannot be compared;
// it is far cheaper than `process.hrtime`, so the offset between the two is measured once.

/** Measured often: a thread that is preempted between the two clocks sees too small an offset. */
const offsetRounds = 100
const originMs = Math.max(
  ...Array.from(
    { length: offsetRounds },
    () => Number(process.hrtime.bigint()) / 1e6 - performance.now(),
  ),
)

/** Monotonic milliseconds with a fraction: the same clock in every thread, to a microsecond. */
export function sharedNowMs(): number {
  return originMs + performance.now()
}

/** A wall clock that is slewed moves less than this against the monotonic one in a long run. */
const stepMsMin = 100
const watchEveryMs = 250

/** Notices when the wall clock is set, or the machine slept, while a bench runs. */
export class ClockWatch {
  readonly #wallMs: () => number
  readonly #timer: NodeJS.Timeout
  #offsetMs: number
  #steppedMs = 0

  constructor(wallMs: () => number = Date.now) {
    this.#wallMs = wallMs
    this.#offsetMs = wallMs() - sharedNowMs()
    this.#timer = setInterval(() => this.check(), watchEveryMs)
    this.#timer.unref()
  }

  check(): void {
    const offsetMs = this.#wallMs() - sharedNowMs()
    const stepMs = offsetMs - this.#offsetMs
    if (Math.abs(stepMs) >= stepMsMin) this.#steppedMs += Math.abs(stepMs)
    this.#offsetMs = offsetMs
  }

  /** Stops watching. The sentence for the result when the clock stepped, else null. */
  end(): string | null {
    this.check()
    clearInterval(this.#timer)
    if (this.#steppedMs === 0) return null
    const seconds = (this.#steppedMs / 1000).toFixed(1)
    return `the wall clock stepped by ${seconds} s during the run, or the machine slept`
  }
}
