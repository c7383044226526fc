// Pauses a destination whose port is closed (a circuit breaker).
// Exponential back-off from 250 ms to 60 s. While the destination is paused the worker sends one
// shred a second as a probe; a probe without an error ends the pause at once.
import { backoffMs } from '../../base/backoff.ts'

const backoff = { firstMs: 250, lastMs: 60_000 }
/** After this long without errors the back-off starts over. */
const healthyMs = 10_000

export class Pause {
  readonly delayMs: number
  readonly #failures: number
  /** When the destination is served again; null while it is half-open. */
  #untilMs: number | null
  #sinceMs: number

  /** Starts a pause; `previous` is the last one, unless the destination has recovered since. */
  constructor(previous: Pause | null, nowMs: number) {
    this.#failures = previous === null ? 1 : previous.#failures + 1
    this.delayMs = Math.round(backoffMs(this.#failures, backoff))
    this.#untilMs = nowMs + this.delayMs
    this.#sinceMs = nowMs
  }

  /** False while the destination is served again (half-open). */
  get isOn(): boolean {
    return this.#untilMs !== null
  }

  isOver(nowMs: number): boolean {
    return this.#untilMs !== null && nowMs >= this.#untilMs
  }

  /** True when the half-open destination had no errors long enough: the back-off is reset. */
  hasRecovered(nowMs: number): boolean {
    return this.#untilMs === null && nowMs - this.#sinceMs >= healthyMs
  }

  /** Ends the pause: the destination is served again, half-open. */
  end(nowMs: number): void {
    this.#untilMs = null
    this.#sinceMs = nowMs
  }
}
