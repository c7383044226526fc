// Rebuilds lost shreds from the erasure sets that are forwarded. Thread: shred worker, only with
// `shredstream.recover`. As soon as half of a set has arrived the other half is rebuilt and sent,
// so that a receiver has the whole set before its slowest shred arrives. Rebuilding a set takes
// milliseconds: it is done in small steps between batches, and forwarding never waits for more than
// one step.
import type { Steps } from '../../base/steps.ts'
import { setOf, slotOf } from '../../chain/solana/shred.ts'
import { ShredSet } from '../../chain/solana/shred-set.ts'
import type { SharedStats } from './shared-stats.ts'

/** Sets kept at once: about three seconds of a busy cluster, 20 MB at most. */
const setsMax = 256

export class Recovery {
  readonly #stats: SharedStats
  /** In insertion order; the oldest set is evicted first. */
  readonly #sets = new Map<string, ShredSet>()
  /** Sets that wait to be rebuilt; a subset of `#sets`. */
  readonly #ripe = new Set<ShredSet>()
  #current: { readonly set: ShredSet; readonly steps: Steps<Uint8Array[] | null> } | null = null

  constructor(stats: SharedStats) {
    this.#stats = stats
  }

  /** True while there is something to rebuild. */
  get isBusy(): boolean {
    return this.#current !== null || this.#ripe.size > 0
  }

  /** Adds a shred that is being forwarded. */
  add(bytes: Uint8Array, at: number): void {
    const key = `${slotOf(bytes, at)}/${setOf(bytes, at)}`
    let set = this.#sets.get(key)
    if (set === undefined) {
      if (this.#sets.size >= setsMax) this.#evict()
      set = new ShredSet()
      this.#sets.set(key, set)
    }
    if (set.isDone) return
    set.add(bytes, at)
    if (set.isRipe) this.#ripe.add(set)
    else if (set.isDone) this.#finish(set)
  }

  /** Does one step of the work; returns the rebuilt shreds when it completes a set. */
  step(): readonly Uint8Array[] {
    this.#current ??= this.#begin()
    if (this.#current === null) return none
    const { set, steps } = this.#current
    const { done, value } = steps.next()
    if (done !== true) return none
    this.#current = null
    this.#finish(set)
    if (value !== null) return value
    this.#stats.totals.add(0, 'rebuildFailed', 1)
    return none
  }

  #begin(): { readonly set: ShredSet; readonly steps: Steps<Uint8Array[] | null> } | null {
    for (const set of this.#ripe) {
      this.#ripe.delete(set)
      return { set, steps: set.rebuild() }
    }
    return null
  }

  /** Frees the shreds of a finished set; the empty set stays, so it is not rebuilt again. */
  #finish(set: ShredSet): void {
    this.#ripe.delete(set)
    set.release()
  }

  #evict(): void {
    const [key, set] = this.#sets.entries().next().value!
    this.#sets.delete(key)
    this.#ripe.delete(set)
  }
}

const none: readonly Uint8Array[] = []
