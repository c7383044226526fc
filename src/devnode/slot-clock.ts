// Ends a slot every so many milliseconds. Thread: main of the devnode.
// Ticks are due at fixed times, so that a late one does not delay the following ones; a clock that
// is many slots late (a suspended machine) skips them instead of catching up.
import type { Clock } from '../base/clock.ts'

const slotsLateMax = 4

export class SlotClock {
  readonly #slotMs: number
  readonly #clock: Clock
  readonly #onSlot: () => void
  #nextMs = 0
  #timer: NodeJS.Timeout | null = null

  constructor(slotMs: number, clock: Clock, onSlot: () => void) {
    this.#slotMs = slotMs
    this.#clock = clock
    this.#onSlot = onSlot
  }

  start(): void {
    this.#nextMs = this.#clock.monotonicMs() + this.#slotMs
    this.#arm()
  }

  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
  }

  #arm(): void {
    const waitMs = Math.max(0, this.#nextMs - this.#clock.monotonicMs())
    this.#timer = setTimeout(() => this.#tick(), waitMs)
  }

  #tick(): void {
    const nowMs = this.#clock.monotonicMs()
    this.#nextMs += this.#slotMs
    if (nowMs - this.#nextMs > slotsLateMax * this.#slotMs) this.#nextMs = nowMs + this.#slotMs
    this.#arm()
    this.#onSlot()
  }
}
