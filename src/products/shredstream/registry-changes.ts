// Writes the server's own changes to the registry; retries failed ones with exponential back-off.
// A full disk or a broken registry must not stop the server: the change stays
// pending, one per subscription, until the registry can be written again.
import { isBug } from '../../base/assert.ts'
import { backoffMs } from '../../base/backoff.ts'
import type { Clock } from '../../base/clock.ts'
import { Fault, messageOf, type Outcome } from '../../base/errors.ts'
import { type Log, LogThrottle } from '../../base/telemetry/log.ts'
import type { Subscription } from '../../customers/subscriptions/subscription.ts'

const backoff = { firstMs: 250, lastMs: 10_000 }

/** The registry answers at once, a cluster's later. */
export type MaybeLater<T> = T | Promise<T>

interface Change {
  readonly apply: () => void | Promise<void>
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
  make(id: string, apply: () => void | Promise<void>): void {
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
      const made = change.apply()
      if (made instanceof Promise) this.#follow(id, change, made)
    } catch (error) {
      this.#retry(id, change, error)
    }
  }

  /** Pending, without a retry, until the cluster has answered. */
  #follow(id: string, change: Change, made: Promise<void>): void {
    change.nextMs = Number.POSITIVE_INFINITY
    this.#pending.set(id, change)
    const isCurrent = () => this.#pending.get(id) === change
    made.then(
      () => {
        if (isCurrent()) this.#pending.delete(id)
      },
      (error: unknown) => {
        if (isCurrent()) this.#retry(id, change, error)
      },
    )
  }

  #retry(id: string, change: Change, error: unknown): void {
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

/** A cluster that is unavailable is retried; any other refusal is final. */
export function whenMade(
  made: MaybeLater<Outcome<Subscription>>,
  then: (outcome: Outcome<Subscription>) => void,
): void | Promise<void> {
  const finish = (outcome: Outcome<Subscription>) => {
    if (!outcome.ok && outcome.refusal.kind === 'unavailable')
      throw new Fault('cluster', outcome.refusal.message, { retryable: true })
    then(outcome)
  }
  return made instanceof Promise ? made.then(finish) : finish(made)
}
