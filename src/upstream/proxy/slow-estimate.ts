// Estimates the 95th percentile of a method's latency in two numbers.
// Steps up nineteen times as far as down, so it settles where one read in twenty is slower, and
// follows changes within some hundred reads.

const STEP = 0.05
const UP = 0.95
const DOWN = 0.05
const FLOOR_MS = 0.05

export class SlowEstimate {
  #ms: number
  #count = 0

  constructor(startMs: number) {
    this.#ms = startMs
  }

  observe(ms: number): void {
    this.#count++
    const step = this.#ms * STEP
    this.#ms = Math.max(FLOOR_MS, this.#ms + (ms > this.#ms ? step * UP : -step * DOWN))
  }

  get ms(): number {
    return this.#ms
  }

  get count(): number {
    return this.#count
  }
}
