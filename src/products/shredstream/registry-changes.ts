// Writes the server's own changes to the registry; retries failed ones with exponential back-off.
// Thread: main. A full disk or a broken registry must not stop the server: the change stays
// pending, one per subscription, until the registry can be written again.
import { isBug } from '../../base/assert.ts'
import { backoffMs } from '../../base/backoff.ts'
import type { Clock } from '../../base/clock.ts'
import { messageOf } from '../../base/errors.ts'
import { type Log, LogThrottle } from '../../telemetry/log.ts'

const backoff = { firstMs: 250, lastMs: 10_000 }

interface Change {
  readonly apply: () => void
  failures: number
  nextMs: number
}

export class RegistryChanges {
  readonly #clock: Clock
  readonly #log: Log
  readonly #throttle = new LogThrottle()
  readonly #pending = new Map<string, Change>()

  constructor({ clock, log }: { readonly clock: Clock; readonly log: Log }) {
    this.#clock = clock
    this.#log = log
  }

  isPending(id: string): boolean {
    return this.#pending.has(id)
  }

  /** Applies a change, now or with retries; an older pending change of that id is dropped. */
  make(id: string, apply: () => void): void {
    this.#attempt(id, { apply, failures: 0, nextMs: 0 })
  }

  /** Drops the pending change of that subscription. */
  cancel(id: string): void {
    this.#pending.delete(id)
  }

  /** Retries the changes that are due. */
  tick(): void {
    const nowMs = this.#clock.monotonicMs()
    for (const [id, change] of this.#pending) if (nowMs >= change.nextMs) this.#attempt(id, change)
  }

  #attempt(id: string, change: Change): void {
    this.#pending.delete(id)
    try {
      change.apply()
    } catch (error) {
      if (isBug(error)) throw error
      const nowMs = this.#clock.monotonicMs()
      change.failures++
      change.nextMs = nowMs + backoffMs(change.failures, backoff)
      this.#pending.set(id, change)
      if (this.#throttle.allows('write', nowMs))
        this.#log.error('registry write failed: retrying', {
          subscription: id,
          reason: messageOf(error),
        })
    }
  }
}
