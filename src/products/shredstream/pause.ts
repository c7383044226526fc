// How long a destination is paused whose machine says that its port is closed. Thread: main.
// Back-off from 250 ms to 60 s. While it is paused the worker sends one shred a second as a probe;
// a probe without an error ends the pause at once.

const firstMs = 250
const lastMs = 60_000
/** Served this long without errors, a destination's pauses begin small again. */
const healthyMs = 10_000

export class Pause {
  readonly delayMs: number
  /** When it is served again; null while it is served on trial. */
  #untilMs: number | null
  #sinceMs: number

  /** Begins a pause; `previous` is the last one, while it is not forgotten. */
  constructor(previous: Pause | null, nowMs: number) {
    this.delayMs = previous === null ? firstMs : Math.min(lastMs, previous.delayMs * 2)
    this.#untilMs = nowMs + this.delayMs
    this.#sinceMs = nowMs
  }

  /** False while the destination is served on trial. */
  get isOn(): boolean {
    return this.#untilMs !== null
  }

  isOver(nowMs: number): boolean {
    return this.#untilMs !== null && nowMs >= this.#untilMs
  }

  /** True when the trial went well: the pause can be forgotten. */
  isForgiven(nowMs: number): boolean {
    return this.#untilMs === null && nowMs - this.#sinceMs >= healthyMs
  }

  /** Serves the destination again, on trial. */
  end(nowMs: number): void {
    this.#untilMs = null
    this.#sinceMs = nowMs
  }
}
