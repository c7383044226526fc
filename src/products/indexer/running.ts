// The queries that run now, by subscription: nobody sees or touches another's. Thread: main.

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

  /** False when the subscription has one of that id already. */
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

  /** Those of the ids that run for this subscription; all of them for null. */
  find(subscription: string, ids: readonly string[] | null): Underway[] {
    const own = this.#bySubscription.get(subscription) ?? new Map<string, Underway>()
    return [...own.values()].filter(({ id }) => ids === null || ids.includes(id))
  }
}
