// One query from its arrival to the end of its answer: what it holds is given back once, and what
// it was is told once. Thread: main. Made by handle.ts.
import type { Gate } from '../../auth/gate.ts'
import type { Principal } from '../../auth/token.ts'
import type { Clock } from '../../base/clock.ts'
import type { Budget } from '../../quota/quota.ts'
import type { Log, LogThrottle } from '../../telemetry/log.ts'
import type { QueryError, QueryTotals, RunningQuery } from './engine.ts'
import type { IndexerMeters, StopWay } from './meters.ts'
import type { UsageFact } from './parcels.ts'
import type { RunningQueries } from './running.ts'
import { fingerprint } from './sql/fingerprint.ts'
import type { Dialect } from './sql/lexer.ts'

/** Who asks. */
export interface Caller {
  readonly principal: Principal
  readonly budget: Budget
  /** The database password that it came with. */
  readonly password: string
}

export interface RunDeps {
  readonly gate: Gate
  readonly running: RunningQueries
  readonly meters: IndexerMeters
  usage(fact: UsageFact): void
  readonly dialect: Dialect
  /** 0 logs none. */
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
  #query: RunningQuery | null = null
  #release: (() => void) | null = null
  #totals: () => QueryTotals = () => NO_TOTALS
  #isOver = false

  constructor(deps: RunDeps, asked: { caller: Caller; id: string; text: string }) {
    this.#deps = deps
    this.id = asked.id
    this.caller = asked.caller
    this.#text = asked.text
    this.#atMs = deps.clock.nowMs()
    this.#beganMs = deps.clock.monotonicMs()
  }

  /** Takes a place among the running ones; tells which of the two rules forbids it. */
  enter(): 'entered' | 'same-id' | 'no-place' {
    const { running } = this.#deps
    const { principal, budget } = this.caller
    const { id } = principal.subscription
    const underway = { id: this.id, cancel: () => this.stop('killed') }
    if (!running.enter(id, underway)) return 'same-id'
    if (!budget.enter('queries')) {
      running.leave(id, this.id)
      return 'no-place'
    }
    this.#release = () => {
      budget.leave('queries')
      running.leave(id, this.id)
    }
    return 'entered'
  }

  /** The engine has it; it is stopped when the credentials die. */
  began(query: RunningQuery, address: string): void {
    this.#query = query
    const leave = this.#release
    const release = this.#deps.gate.lease(this.caller.principal, 'indexer', address, () =>
      this.stop('access_lost'),
    )
    this.#release = () => {
      leave?.()
      release()
    }
  }

  /** Where the figures of the result are read when it ends. */
  countBy(totals: () => QueryTotals): void {
    this.#totals = totals
  }

  /** Stops it wherever it is; its answer then tells that it was cancelled. */
  stop(way: StopWay): void {
    if (this.#isOver) return
    this.#deps.meters.stopped[way].inc()
    this.#query?.cancel()
  }

  /** The first call gives back what is held and tells what it was; later ones do nothing. */
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
    this.#tellSlow(elapsedMs, error)
  }

  /** Without literals and without the id, which the customer chose: both may hold a secret. */
  #tellSlow(elapsedMs: number, error: QueryError | null): void {
    const { slowQueryMs, slowLines, clock, log, dialect } = this.#deps
    if (slowQueryMs === 0 || elapsedMs <= slowQueryMs) return
    if (!slowLines.allows('slow', clock.monotonicMs())) return
    log.info('slow query', {
      subscription: this.caller.principal.subscription.id,
      elapsedMs: Math.round(elapsedMs),
      rows: this.#totals().rows,
      code: error?.code ?? 0,
      query: fingerprint(this.#text, dialect),
    })
  }
}
