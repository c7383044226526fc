// Lifecycle of one query from its arrival to the end of its response: releases its resources and
// reports its usage exactly once.
import type { Clock } from '../../base/clock.ts'
import type { Log, LogThrottle } from '../../base/telemetry/log.ts'
import type { Gate } from '../../customers/auth/gate.ts'
import type { Principal } from '../../customers/auth/token.ts'
import type { Budget } from '../../customers/quota/budget.ts'
import type { QueryError } from '../../indexer/clickhouse/exceptions.ts'
import type { UsageFact } from '../../indexer/feed-items.ts'
import type { IndexerMeters, StopWay } from '../../indexer/meters.ts'
import { noTotals, type QueryBegin, type QueryTotals } from '../../indexer/queries/protocol.ts'
import type { RelayedQuery } from '../../indexer/queries/service.ts'

/** The authenticated caller. */
export interface Caller {
  readonly principal: Principal
  readonly budget: Budget
  /** The database password of the request. */
  readonly password: string
}

export interface RunDeps {
  readonly gate: Gate
  readonly queue: QueryQueue
  readonly meters: IndexerMeters
  usage(fact: UsageFact): void
  /** Slower queries are logged; 0 logs none. */
  readonly slowQueryMs: number
  readonly slowLines: LogThrottle
  readonly clock: Clock
  readonly log: Log
}

export class QueryRun {
  readonly caller: Caller
  id: string
  /** Null before it asked for a permit. */
  head: QueryBegin | null = null
  /** The plan has no permit for it. */
  isOverPlan = false
  readonly #deps: RunDeps
  readonly #query: () => RelayedQuery
  readonly #atMs: number
  readonly #beganMs: number
  readonly #endLease: () => void
  #leave: () => void = () => {}
  /** Sets where the totals of the result are read when the query ends. */
  totals: () => QueryTotals = () => noTotals
  #isOver = false

  /** Takes a lease that stops the query when the credentials are revoked. */
  constructor(
    deps: RunDeps,
    started: { caller: Caller; id: string; address: string; query(): RelayedQuery },
  ) {
    const { caller, id, address, query } = started
    this.#deps = deps
    this.id = id
    this.caller = caller
    this.#query = query
    this.#atMs = deps.clock.nowMs()
    this.#beganMs = deps.clock.monotonicMs()
    this.#endLease = deps.gate.lease(caller.principal, 'indexer', address, () =>
      this.stop('access_lost'),
    )
  }

  /** Takes a permit of the plan, after a wait where there is none, and lets the query run. */
  async enter(head: QueryBegin): Promise<void> {
    this.head = head
    this.id = head.queryId
    if (this.#isOver) return
    const { queue } = this.#deps
    const { budget } = this.caller
    const waiting = queue.enter(budget)
    this.#leave = waiting.cancel
    const outcome = await waiting.outcome
    if (outcome === 'entered' && !this.#isOver) {
      this.#leave = () => queue.leave(budget)
      this.#query().permit()
      return
    }
    if (outcome === 'entered') queue.leave(budget)
    this.isOverPlan = outcome === 'plan-limit'
    this.#query().cancel()
  }

  /** Cancels the query; its response is then QUERY_WAS_CANCELLED. */
  stop(way: StopWay): void {
    if (this.#isOver) return
    this.#deps.meters.stopped[way].inc()
    this.#query().cancel()
  }

  /** Releases resources without a report: it never was a query. False when they are released. */
  abandon(): boolean {
    if (this.#isOver) return false
    this.#isOver = true
    this.#leave()
    this.#endLease()
    return true
  }

  /** The first call releases resources and reports usage; later ones do nothing. */
  end(error: QueryError | null): void {
    if (!this.abandon()) return
    const { clock, meters } = this.#deps
    const { rows, bytes } = this.totals()
    const elapsedMs = clock.monotonicMs() - this.#beganMs
    meters.finished(error?.name ?? 'OK')
    meters.latency.observeMs(elapsedMs)
    meters.rows.inc(rows)
    meters.bytes.inc(bytes)
    this.caller.budget.meter('bytes', bytes)
    this.#deps.usage({
      subscription: this.caller.principal.subscription.id,
      atMs: this.#atMs,
      queryId: this.id,
      elapsedMs,
      rows,
      bytes,
      code: error?.code ?? 0,
    })
    this.#logSlow(elapsedMs, rows, error)
  }

  /** Logs without literals and without the customer's query id: both may contain a secret. */
  #logSlow(elapsedMs: number, rows: number, error: QueryError | null): void {
    const { slowQueryMs, slowLines, clock, log } = this.#deps
    if (slowQueryMs === 0 || elapsedMs <= slowQueryMs) return
    if (!slowLines.allows('slow', clock.monotonicMs())) return
    log.info('slow query', {
      subscription: this.caller.principal.subscription.id,
      elapsedMs: Math.round(elapsedMs),
      rows,
      code: error?.code ?? 0,
      query: this.head?.fingerprint ?? '',
    })
  }
}

// Queries over the plan's number at once wait in a short queue per subscription, first come first
// served. Bounds: the plan's `indexer.queued` queries for `indexer.queueMs` each.

/** How a wait ended: with a permit, without one, or because the query was stopped. */
export type QueueOutcome = 'entered' | 'plan-limit' | 'cancelled'

interface Waiting {
  settle(outcome: QueueOutcome): void
}

export class QueryQueue {
  readonly #waiting = new Map<Budget, Waiting[]>()
  /** Queries that wait now. */
  count = 0
  /** Queries that have a permit. */
  running = 0

  /**
   * Takes a permit of the plan, waiting for one where the queue has space. `cancel` ends the wait.
   * After `entered` the permit is returned by `leave`.
   */
  enter(budget: Budget): { readonly outcome: Promise<QueueOutcome>; cancel(): void } {
    const { queued, queueMs } = budget.plan.indexer
    const queue = this.#waiting.get(budget) ?? []
    // Nobody overtakes a query that waits.
    if (queue.length === 0 && budget.hasPermit('queries'))
      return { outcome: Promise.resolve(this.#take(budget)), cancel() {} }
    if (queue.length >= queued) return { outcome: Promise.resolve(this.#take(budget)), cancel() {} }
    let cancel = () => {}
    const outcome = new Promise<QueueOutcome>((resolve) => {
      const timer = setTimeout(() => waiting.settle('plan-limit'), queueMs)
      const waiting: Waiting = {
        settle: (found) => {
          if (!this.#remove(budget, waiting)) return
          clearTimeout(timer)
          resolve(found === 'plan-limit' ? this.#take(budget) : found)
        },
      }
      cancel = () => waiting.settle('cancelled')
      this.#waiting.set(budget, [...queue, waiting])
      this.count++
    })
    return { outcome, cancel }
  }

  /** Returns a permit, and gives it to the query that waits longest. */
  leave(budget: Budget): void {
    budget.leave('queries')
    this.running--
    for (;;) {
      const [first] = this.#waiting.get(budget) ?? []
      if (first === undefined || !budget.hasPermit('queries')) return
      first.settle(this.#take(budget))
    }
  }

  #remove(budget: Budget, waiting: Waiting): boolean {
    const queue = this.#waiting.get(budget) ?? []
    const left = queue.filter((one) => one !== waiting)
    if (left.length === queue.length) return false
    this.count--
    if (left.length === 0) this.#waiting.delete(budget)
    else this.#waiting.set(budget, left)
    return true
  }

  /** A permit; the budget counts the refusal where none is free after all. */
  #take(budget: Budget): QueueOutcome {
    if (!budget.enter('queries')) return 'plan-limit'
    this.running++
    return 'entered'
  }
}
