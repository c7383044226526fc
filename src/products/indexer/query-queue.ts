// Queries over the plan's number at once wait in a short queue per subscription, first come first
// served. Bounds: the plan's `indexer.queued` queries for `indexer.queueMs` each.
import type { Budget } from '../../customers/quota/budget.ts'

/** How a wait ended: with a permit, without one, or because the query was stopped. */
export type QueueOutcome = 'entered' | 'plan-limit' | 'cancelled'

interface Waiting {
  settle(outcome: QueueOutcome): void
}

export class QueryQueue {
  readonly #waiting = new Map<Budget, Waiting[]>()
  #count = 0

  /** Queries that wait now. */
  get count(): number {
    return this.#count
  }

  /**
   * Takes a permit of the plan, waiting for one where the queue has space. `cancel` ends the wait.
   * After `entered` the permit is returned by `leave`.
   */
  enter(budget: Budget): { readonly outcome: Promise<QueueOutcome>; cancel(): void } {
    const { queued, queueMs } = budget.plan.indexer
    const queue = this.#waiting.get(budget) ?? []
    // Nobody overtakes a query that waits.
    if (queue.length === 0 && budget.hasPermit('queries')) {
      budget.enter('queries')
      return { outcome: Promise.resolve('entered'), cancel: () => {} }
    }
    if (queue.length >= queued) return { outcome: Promise.resolve(lastTry(budget)), cancel() {} }
    let cancel = () => {}
    const outcome = new Promise<QueueOutcome>((resolve) => {
      const timer = setTimeout(() => waiting.settle('plan-limit'), queueMs)
      const waiting: Waiting = {
        settle: (found) => {
          if (!this.#remove(budget, waiting)) return
          clearTimeout(timer)
          resolve(found === 'plan-limit' ? lastTry(budget) : found)
        },
      }
      cancel = () => waiting.settle('cancelled')
      this.#waiting.set(budget, [...queue, waiting])
      this.#count++
    })
    return { outcome, cancel }
  }

  /** Returns a permit, and gives it to the query that waits longest. */
  leave(budget: Budget): void {
    budget.leave('queries')
    for (;;) {
      const [first] = this.#waiting.get(budget) ?? []
      if (first === undefined || !budget.hasPermit('queries')) return
      budget.enter('queries')
      first.settle('entered')
    }
  }

  #remove(budget: Budget, waiting: Waiting): boolean {
    const queue = this.#waiting.get(budget) ?? []
    const left = queue.filter((one) => one !== waiting)
    if (left.length === queue.length) return false
    this.#count--
    if (left.length === 0) this.#waiting.delete(budget)
    else this.#waiting.set(budget, left)
    return true
  }
}

/** Counts the refusal, unless a permit is free after all. */
function lastTry(budget: Budget): QueueOutcome {
  return budget.enter('queries') ? 'entered' : 'plan-limit'
}
