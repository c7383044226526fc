// Rate-limits each of many names (client addresses, fee payers) with its own token bucket.
// Bounded: a full bucket carries no information and is dropped; when the table is
// full, the oldest bucket is evicted.
import { Bucket, type Rate } from '../../base/bucket.ts'
import { addressKey } from '../../base/cidr.ts'
import type { Clock } from '../../base/clock.ts'
import type { AddressLimits } from './config.ts'

const namesMax = 100_000
/** Buckets checked per new name, which keeps the table small without scanning all of it. */
const sweepEach = 4

export class Rates {
  readonly #rate: Rate
  readonly #buckets = new Map<string, Bucket>()
  #sweep: Iterator<[string, Bucket]> | null = null

  constructor(rate: Rate) {
    this.#rate = rate
  }

  /** Takes `cost` and returns 0, or takes nothing and returns the milliseconds to wait for it. */
  take(name: string, nowMs: number, cost = 1): number {
    const waitMs = this.waitMs(name, nowMs, cost)
    if (waitMs === 0) this.charge(name, nowMs, cost)
    return waitMs
  }

  /** Milliseconds until `cost` can be taken, without taking it. */
  waitMs(name: string, nowMs: number, cost: number): number {
    const bucket = this.#buckets.get(name)
    if (bucket !== undefined) return bucket.waitMs(cost, nowMs)
    return cost <= this.#rate.burst ? 0 : Number.POSITIVE_INFINITY
  }

  /** Takes `cost` even when the bucket has less: the debt delays later takes. */
  charge(name: string, nowMs: number, cost: number): void {
    let bucket = this.#buckets.get(name)
    if (bucket === undefined) {
      this.#evict(nowMs)
      bucket = new Bucket(this.#rate)
      this.#buckets.set(name, bucket)
    }
    bucket.take(cost, nowMs)
  }

  get size(): number {
    return this.#buckets.size
  }

  #evict(nowMs: number): void {
    for (let checked = 0; checked < sweepEach; checked++) {
      this.#sweep ??= this.#buckets.entries()
      const next = this.#sweep.next()
      if (next.done === true) {
        this.#sweep = null
        break
      }
      const [name, bucket] = next.value
      if (bucket.fullInMs(nowMs) === 0) this.#buckets.delete(name)
    }
    if (this.#buckets.size < namesMax) return
    const { value } = this.#buckets.keys().next()
    if (value !== undefined) this.#buckets.delete(value)
  }
}

// Bounds what one client address may cost on endpoints that take no token.
// Two rates per address (IPv4 /32, IPv6 /64) over all open endpoints together: milliseconds of
// main-thread work and bytes of answers. An estimate is charged before the work is done; what the
// work cost beyond it is charged afterwards and delays the next request of that address.

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

  /** Charges an estimate, where what follows it could be charged, too. Returns 0, or the
   *  milliseconds after which it would be admitted; then nothing is charged and the caller refuses.
   *  An estimate over half a burst needs half of it, so that nothing is refused forever, also where
   *  a small charge went before a large one. */
  admit(address: string, estimate: Cost, following: Cost = { workMs: 0, bytes: 0 }): number {
    const { workMsPerSecond, workMsBurst, bytesBurst } = this.#limits
    if (workMsPerSecond === 0) return 0
    const key = addressKey(address)
    const nowMs = this.#clock.monotonicMs()
    const needed = (kind: keyof Cost, burst: number) =>
      Math.min(estimate[kind], burst / 2) + Math.min(following[kind], burst / 2)
    const workMs = this.#work.waitMs(key, nowMs, needed('workMs', workMsBurst))
    const bytesMs = this.#bytes.waitMs(key, nowMs, needed('bytes', bytesBurst))
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

// Delays refusals, so that a client that retries a refused request at once costs one answer per
// second and connection instead of as many as it can send, and not all of them at one moment.
// Bounded per client; past the bound the caller answers at once and should close the connection.

const delayMsMax = 1_000
const waitingMax = 16

export class RefusalDelay {
  readonly #waiting = new Map<string, number>()

  /** Resolves after `waitMs`, at most a second; null when too many refusals of this client are
   *  delayed already. `key` is the client's address key. */
  delay(key: string, waitMs: number): Promise<void> | null {
    const count = this.#waiting.get(key) ?? 0
    if (count >= waitingMax) return null
    this.#waiting.set(key, count + 1)
    return new Promise((resolve) => {
      const end = (): void => {
        const left = (this.#waiting.get(key) ?? 1) - 1
        if (left === 0) this.#waiting.delete(key)
        else this.#waiting.set(key, left)
        resolve()
      }
      const early = count / (2 * waitingMax)
      setTimeout(end, Math.min(waitMs, delayMsMax) * (1 - early)).unref()
    })
  }
}
