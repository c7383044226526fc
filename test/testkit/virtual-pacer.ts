// A pacer whose clock advances only by waits, which return at once: days take no time.
import type { Clock } from '../../src/base/clock.ts'
import type { Pacer } from '../../src/upstream/execution/playback.ts'

export class VirtualPacer implements Pacer {
  readonly clock: Clock
  #nowMs: number
  #isStopped = false

  constructor(startMs = 1_700_000_000_000) {
    this.#nowMs = startMs
    this.clock = { nowMs: () => this.#nowMs, monotonicMs: () => this.#nowMs }
  }

  get isStopped(): boolean {
    return this.#isStopped
  }

  async until(ms: number): Promise<void> {
    this.#nowMs = Math.max(this.#nowMs, ms)
  }

  stop(): void {
    this.#isStopped = true
  }
}
