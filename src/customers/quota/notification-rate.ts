// Limits the bytes per second of one subscription's notifications.
// A notification over the rate is refused and not charged, so that expensive feeds end and cheap
// ones continue. It still counts against new feeds, so that reopening a feed gains nothing.
import { Bucket } from '../../base/bucket.ts'

/** Blocks arrive in bursts, and so do the updates of a source that catches up after a stall. */
const BURST_SECS = 2

export class NotificationRate {
  readonly #accepted: Bucket
  readonly #all: Bucket

  constructor(bytesPerSecond: number) {
    const rate = { perSecond: bytesPerSecond, burst: bytesPerSecond * BURST_SECS }
    this.#accepted = new Bucket(rate)
    this.#all = new Bucket(rate)
  }

  /** Charges a notification; false when it is over the rate. */
  take(bytes: number, nowMs: number): boolean {
    this.#all.take(bytes, nowMs)
    if (this.#accepted.waitMs(bytes, nowMs) > 0) return false
    this.#accepted.take(bytes, nowMs)
    return true
  }

  /** Milliseconds until a new feed may be opened; 0 means now. */
  waitMs(nowMs: number): number {
    return this.#all.waitMs(0, nowMs)
  }
}
