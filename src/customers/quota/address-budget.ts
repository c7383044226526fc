// Bounds what one client address may cost on endpoints that take no token.
// Two rates per address (IPv4 /32, IPv6 /64) over all open endpoints together: milliseconds of
// main-thread work and bytes of answers. An estimate is charged before the work is done; what the
// work cost beyond it is charged afterwards and delays the next request of that address.
import { addressKey } from '../../base/cidr.ts'
import type { Clock } from '../../base/clock.ts'
import type { AddressLimits } from './config.ts'
import { Rates } from './rates.ts'

export interface Cost {
  readonly workMs: number
  readonly bytes: number
}

export class AddressBudget {
  readonly #limits: AddressLimits
  readonly #clock: Clock
  readonly #work: Rates
  readonly #bytes: Rates

  constructor(limits: AddressLimits, clock: Clock) {
    this.#limits = limits
    this.#clock = clock
    this.#work = new Rates({ perSecond: limits.workMsPerSecond, burst: limits.workMsBurst })
    this.#bytes = new Rates({ perSecond: limits.bytesPerSecond, burst: limits.bytesBurst })
  }

  /** Charges an estimate. Returns 0, or the milliseconds after which it would be admitted; then
   *  nothing is charged and the caller refuses. An estimate over half a burst needs half of it, so
   *  that nothing is refused forever, also where a small charge went before a large one. */
  admit(address: string, estimate: Cost): number {
    const { workMsPerSecond, workMsBurst, bytesBurst } = this.#limits
    if (workMsPerSecond === 0) return 0
    const key = addressKey(address)
    const nowMs = this.#clock.monotonicMs()
    const workMs = this.#work.waitMs(key, nowMs, Math.min(estimate.workMs, workMsBurst / 2))
    const bytesMs = this.#bytes.waitMs(key, nowMs, Math.min(estimate.bytes, bytesBurst / 2))
    const waitMs = Math.max(workMs, bytesMs)
    if (waitMs === 0) this.#charge(key, nowMs, estimate)
    return waitMs
  }

  /** Charges what a request cost beyond its estimate. */
  charge(address: string, cost: Cost): void {
    if (this.#limits.workMsPerSecond === 0) return
    this.#charge(addressKey(address), this.#clock.monotonicMs(), cost)
  }

  #charge(key: string, nowMs: number, { workMs, bytes }: Cost): void {
    if (workMs > 0) this.#work.charge(key, nowMs, workMs)
    if (bytes > 0) this.#bytes.charge(key, nowMs, bytes)
  }
}
