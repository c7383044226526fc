// Measures the share of time in which a thread's event loop was busy. Thread: the watched one.
// A loop that is busy all the time is the bottleneck: what it measures is its own queue.

const windowMs = 1_000

export class BusyWatch {
  /** Of the busiest second. */
  worst = 0
  #elapsedMs = 0
  #busyMs = 0
  #before: { readonly nowMs: number; readonly idleMs: number } | null = null
  #windowElapsedMs = 0
  #windowBusyMs = 0

  /** Milliseconds in which the thread worked. */
  get busyMs(): number {
    return this.#busyMs
  }

  get share(): number {
    return this.#elapsedMs === 0 ? 0 : this.#busyMs / this.#elapsedMs
  }

  /** `spunMs`: time so far in turns of the loop that found nothing to do. */
  observe(nowMs: number, spunMs: number): void {
    const idleMs = performance.eventLoopUtilization().idle + spunMs
    const before = this.#before
    this.#before = { nowMs, idleMs }
    if (before === null) return
    const elapsedMs = nowMs - before.nowMs
    const busyMs = Math.min(elapsedMs, Math.max(0, elapsedMs - (idleMs - before.idleMs)))
    this.#elapsedMs += elapsedMs
    this.#busyMs += busyMs
    this.#windowElapsedMs += elapsedMs
    this.#windowBusyMs += busyMs
    if (this.#windowElapsedMs < windowMs) return
    this.worst = Math.max(this.worst, this.#windowBusyMs / this.#windowElapsedMs)
    this.#windowElapsedMs = 0
    this.#windowBusyMs = 0
  }
}
