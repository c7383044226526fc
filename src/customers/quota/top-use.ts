// Counts the use of each subscription since the start, and keeps the ones that used most.
// Totals only grow, so the top is exact although a count looks at one subscription alone: one that
// passes the least of the top takes its position. Memory: one row per subscription that was used.
// `other` is what was used outside the top at the time: it never shrinks, as a counter must not.
import { addToDay, type UsageCounts, type UsageDelta } from '../subscriptions/usage.ts'

/** Series of customers on the operator API, besides `other`. */
export const topMax = 50

const nothing: UsageCounts = { credits: 0, calls: 0, refused: 0, notifications: 0, bytes: 0 }

export class TopUse {
  readonly #totals = new Map<string, UsageCounts>()
  readonly #top = new Set<string>()
  #least: string | null = null
  other = nothing

  /** Adds what a subscription used. */
  count(delta: UsageDelta): void {
    const { id, window: _, ...counts } = delta
    this.#totals.set(id, addToDay(this.#totals.get(id), counts))
    if (this.#top.has(id)) {
      if (id === this.#least) this.#least = null
      return
    }
    if (this.#top.size < topMax) {
      this.#enter(id)
      return
    }
    this.#least ??= this.#leastOfTop()
    // A tie stays as it is: series that come and go are of no use.
    if (this.#credits(id) <= this.#credits(this.#least)) {
      this.other = addToDay(this.other, counts)
      return
    }
    this.#top.delete(this.#least)
    this.#enter(id)
  }

  /** Those that used most, each with its use since the start. */
  *top(): Iterable<readonly [id: string, use: UsageCounts]> {
    for (const id of this.#top) yield [id, this.#totals.get(id)!]
  }

  #enter(id: string): void {
    this.#top.add(id)
    this.#least = null
  }

  #credits(id: string): number {
    return this.#totals.get(id)!.credits
  }

  #leastOfTop(): string {
    return [...this.#top].reduce((least, id) =>
      this.#credits(id) < this.#credits(least) ? id : least,
    )
  }
}
