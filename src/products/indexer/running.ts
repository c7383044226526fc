// Registry of running queries by subscription, which isolates subscriptions. Thread: main.

export interface Underway {
  readonly id: string
  cancel(): void
}

export class RunningQueries {
  readonly #bySubscription = new Map<string, Map<string, Underway>>()
  #count = 0

  get count(): number {
    return this.#count
  }

  /** False when the subscription already runs a query with that id. */
  enter(subscription: string, query: Underway): boolean {
    const own = this.#bySubscription.get(subscription) ?? new Map<string, Underway>()
    if (own.has(query.id)) return false
    own.set(query.id, query)
    this.#bySubscription.set(subscription, own)
    this.#count++
    return true
  }

  leave(subscription: string, id: string): void {
    const own = this.#bySubscription.get(subscription)
    if (own?.delete(id) !== true) return
    this.#count--
    if (own.size === 0) this.#bySubscription.delete(subscription)
  }

  /** Running queries of the subscription with these ids; all of them for null. */
  find(subscription: string, ids: readonly string[] | null): Underway[] {
    const own = this.#bySubscription.get(subscription) ?? new Map<string, Underway>()
    return [...own.values()].filter(({ id }) => ids === null || ids.includes(id))
  }
}
