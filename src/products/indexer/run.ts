// Lifecycle of one query from its arrival to the end of its response: releases its resources and
// reports its usage exactly once.
import type { Clock } from '../../base/clock.ts'
import type { Log, LogThrottle } from '../../base/telemetry/log.ts'
import type { Gate } from '../../customers/auth/gate.ts'
import type { Principal } from '../../customers/auth/token.ts'
import type { Budget } from '../../customers/quota/budget.ts'
import type { QueryError } from '../../indexer/clickhouse/exceptions.ts'
import { fingerprint } from '../../indexer/clickhouse/sql/fingerprint.ts'
import type { QueryEngine, QueryTotals, RunningQuery } from '../../indexer/engine.ts'
import type { UsageFact } from '../../indexer/feed-items.ts'
import type { IndexerMeters, StopWay } from '../../indexer/meters.ts'

interface Underway {
  readonly id: string
  cancel(): void
}

/** The authenticated caller. */
export interface Caller {
  readonly principal: Principal
  readonly budget: Budget
  /** The database password of the request. */
  readonly password: string
}

export interface RunDeps {
  readonly gate: Gate
  readonly running: RunningQueries
  readonly queue: QueryQueue
  readonly meters: IndexerMeters
  usage(fact: UsageFact): void
  readonly dialect: QueryEngine['name']
  /** Slower queries are logged; 0 logs none. */
  readonly slowQueryMs: number
  readonly slowLines: LogThrottle
  readonly clock: Clock
  readonly log: Log
}

const NO_TOTALS: QueryTotals = { rows: 0, bytes: 0, elapsedMs: 0 }

export class QueryRun {
  readonly id: string
  readonly caller: Caller
  readonly #deps: RunDeps
  readonly #text: string
  readonly #atMs: number
  readonly #beganMs: number
  /** Ends the wait for a permit, or the running query. */
  #cancel: () => void = () => {}
  #isStopped = false
  #release: (() => void) | null = null
  #totals: () => QueryTotals = () => NO_TOTALS
  #isOver = false

  constructor(deps: RunDeps, query: { caller: Caller; id: string; text: string }) {
    this.#deps = deps
    this.id = query.id
    this.caller = query.caller
    this.#text = query.text
    this.#atMs = deps.clock.nowMs()
    this.#beganMs = deps.clock.monotonicMs()
  }

  /**
   * Registers as a query of its subscription, waiting or running, with a lease that stops it when
   * the credentials are revoked. False when a query of the same id is registered.
   */
  register(address: string): boolean {
    const { running, gate } = this.#deps
    const { principal } = this.caller
    const { id } = principal.subscription
    if (!running.enter(id, { id: this.id, cancel: () => this.stop('killed') })) return false
    const release = gate.lease(principal, 'indexer', address, () => this.stop('access_lost'))
    this.#release = () => {
      running.leave(id, this.id)
      release()
    }
    return true
  }

  /** Takes a permit of the plan, after a wait where there is none. */
  async enter(): Promise<QueueOutcome> {
    const { queue } = this.#deps
    const { budget } = this.caller
    const waiting = queue.enter(budget)
    this.#cancel = waiting.cancel
    const outcome = await waiting.outcome
    if (outcome !== 'entered') return outcome
    if (this.#isOver || this.#isStopped) {
      queue.leave(budget)
      return 'cancelled'
    }
    const unregister = this.#release
    this.#release = () => {
      unregister?.()
      queue.leave(budget)
    }
    return 'entered'
  }

  /** The engine runs it. */
  began(query: RunningQuery): void {
    this.#cancel = () => query.cancel()
  }

  /** Sets where the totals of the result are read when the query ends. */
  countBy(totals: () => QueryTotals): void {
    this.#totals = totals
  }

  /** Cancels the query; its response is then QUERY_WAS_CANCELLED. */
  stop(way: StopWay): void {
    if (this.#isOver) return
    this.#deps.meters.stopped[way].inc()
    this.#isStopped = true
    this.#cancel()
  }

  /** Releases resources without a report: the query never ran. */
  abandon(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#release?.()
  }

  /** The first call releases resources and reports usage; later ones do nothing. */
  end(error: QueryError | null): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#release?.()
    const { clock, meters } = this.#deps
    const { rows, bytes } = this.#totals()
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
    this.#logSlow(elapsedMs, error)
  }

  /** Logs without literals and without the customer's query id: both may contain a secret. */
  #logSlow(elapsedMs: number, error: QueryError | null): void {
    const { slowQueryMs, slowLines, clock, log } = this.#deps
    if (slowQueryMs === 0 || elapsedMs <= slowQueryMs) return
    if (!slowLines.allows('slow', clock.monotonicMs())) return
    log.info('slow query', {
      subscription: this.caller.principal.subscription.id,
      elapsedMs: Math.round(elapsedMs),
      rows: this.#totals().rows,
      code: error?.code ?? 0,
      query: fingerprint(this.#text),
    })
  }
}

/** Registry of queries, waiting and running, by subscription, which isolates subscriptions. */
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

// Queries over the plan's number at once wait in a short queue per subscription, first come first
// served. Bounds: the plan's `indexer.queued` queries for `indexer.queueMs` each.

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
