// Abortable waits on an injected clock, for execution sources. Thread: source worker.
// Sources never call timers themselves, so that a test can simulate days at once.
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { type Clock, systemClock } from '../../base/clock.ts'

export interface Pacer {
  readonly clock: Clock
  /** True after `stop`; every wait then returns at once. */
  readonly isStopped: boolean
  /** Returns when `clock.monotonicMs()` has reached `ms`, or after `stop`. Always yields once. */
  until(ms: number): Promise<void>
  stop(): void
}

export class TimerPacer implements Pacer {
  readonly clock: Clock
  readonly #abort = new AbortController()

  constructor(clock: Clock = systemClock) {
    this.clock = clock
  }

  get isStopped(): boolean {
    return this.#abort.signal.aborted
  }

  async until(ms: number): Promise<void> {
    // Timers may fire slightly early: the remaining time is checked again.
    let left = ms - this.clock.monotonicMs()
    if (left <= 0) await nextTurn()
    while (left > 0 && !this.isStopped) {
      // `stop` aborts the sleep, which rejects it: expected.
      await sleep(left, undefined, { signal: this.#abort.signal }).catch(() => {})
      left = ms - this.clock.monotonicMs()
    }
  }

  stop(): void {
    this.#abort.abort()
  }
}
