// What the notifications of one subscription may cost per second, in bytes. Thread: any. Pure.
// What does not fit is refused without being taken, so that expensive feeds are refused and cheap
// ones go on; it still counts against new feeds, so that ending and reopening one gains nothing.
import { Bucket } from '../base/bucket.ts'

/** Blocks come in bursts, and so does what a stalled source catches up with. */
const BURST_SECS = 2

export class NotificationRate {
  readonly #accepted: Bucket
  readonly #all: Bucket

  constructor(bytesPerSecond: number) {
    const rate = { perSecond: bytesPerSecond, burst: bytesPerSecond * BURST_SECS }
    this.#accepted = new Bucket(rate)
    this.#all = new Bucket(rate)
  }

  /** False when it is over the rate. */
  take(bytes: number, nowMs: number): boolean {
    this.#all.take(bytes, nowMs)
    if (this.#accepted.waitMs(bytes, nowMs) > 0) return false
    this.#accepted.take(bytes, nowMs)
    return true
  }

  /** Until a new feed may be opened; 0 is now. */
  waitMs(nowMs: number): number {
    return this.#all.waitMs(0, nowMs)
  }
}
