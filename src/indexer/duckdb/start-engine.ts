// Runs queries on the embedded DuckDB index, each in an expendable process.
//
//   run(query, ticket) -> back-off -> process of the pool -> newest snapshot -> PooledQuery
//
// DuckDB itself is never loaded into this process, and no result passes through it.
// Thread: main of the query program.
import { rm } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join, resolve } from 'node:path'
import { messageOf } from '../../base/errors.ts'
import type { Log } from '../../base/telemetry/log.ts'
import { type ExceptionName, exception } from '../clickhouse/exceptions.ts'
import { queryBytes, queryProcesses } from '../config.ts'
import type { Query, QueryEnd, QueryEngine, SentQuery } from '../engine.ts'
import type { KillReason, QueryProcessMeters } from '../meters.ts'
import { noTotals, type ResultAddress } from '../queries/protocol.ts'
import { PooledQuery, QueryPool } from './query-pool.ts'
import { LatestSnapshot } from './snapshot-socket.ts'
import { openFolder } from './store-files.ts'
import { BackOff, QueryWatch } from './watch.ts'

export interface DuckdbEngineDeps {
  readonly results: ResultAddress
  readonly log: Log
  readonly meters?: QueryProcessMeters
  /** Query processes at once; one subscription never has more than half of them. */
  readonly processesMax?: number
  /** Processes that are kept, also idle. */
  readonly warm?: number
}

const threadsMax = 4
const refreshMs = 30_000

/** Resolves when a query process is ready; rejects with a Fault when none starts. */
export async function startDuckdbEngine(
  folder: string,
  deps: DuckdbEngineDeps,
): Promise<QueryEngine> {
  const path = resolve(folder)
  await openFolder(path)
  await rm(join(path, 'scratch'), { recursive: true, force: true })
  await openFolder(join(path, 'scratch'))
  const snapshots = new LatestSnapshot(path)
  const parallel = availableParallelism()
  const threads = Math.min(threadsMax, parallel)
  const { processesMax, warm } = { ...queryProcesses, ...deps }
  const memory = { memoryBytes: queryBytes.standard, totalBytes: queryBytes.most(warm) }
  const sizes = { processesMax, warm, parallel, threads, ...memory }
  const pool = new QueryPool({ folder: path, results: deps.results, ...sizes }, deps.log)
  const version = await pool.start()
  return new DuckdbEngine(version, pool, snapshots, deps)
}

interface Running {
  isCancelled: boolean
  isSlow: boolean
  run: PooledQuery | null
  /** Ends the wait for a process. */
  leave(): void
}

class DuckdbEngine implements QueryEngine {
  readonly name = 'duckdb'
  readonly version: string
  readonly #pool: QueryPool
  readonly #snapshots: LatestSnapshot
  readonly #deps: DuckdbEngineDeps
  readonly #watch = new QueryWatch()
  readonly #backOff = new BackOff(() => performance.now())
  readonly #refreshing: NodeJS.Timeout
  readonly #runs = new Set<PooledQuery>()

  constructor(version: string, pool: QueryPool, snapshots: LatestSnapshot, deps: DuckdbEngineDeps) {
    this.version = version
    this.#pool = pool
    this.#snapshots = snapshots
    this.#deps = deps
    this.#refreshing = setInterval(() => {
      // A deleted file occupies the disk as long as a process has it open.
      // A failure is retried with the next interval.
      snapshots.get(refreshMs).then(
        (snapshot) => pool.refresh(snapshot),
        () => {},
      )
      this.#measure()
    }, refreshMs)
    this.#refreshing.unref()
    this.#measure()
  }

  run(query: Query, ticket: string): SentQuery {
    const running: Running = { isCancelled: false, isSlow: false, run: null, leave() {} }
    const beganMs = performance.now()
    const ended = this.#run(query, ticket, running).catch((error: unknown): QueryEnd => {
      this.#deps.log.error('query failed unexpectedly', { why: messageOf(error) })
      return failed('UNKNOWN_EXCEPTION', 'the query could not be run')
    })
    return {
      ended,
      cancel: () => {
        running.isCancelled = true
        running.leave()
        running.run?.end('cancel')
      },
      slowed: (isSlow) => {
        running.isSlow = isSlow
      },
      totals: () => ({ ...noTotals, elapsedMs: performance.now() - beganMs }),
    }
  }

  async stop(): Promise<void> {
    clearInterval(this.#refreshing)
    for (const run of this.#runs) run.end('cancel')
    await this.#pool.stop()
  }

  async #run(query: Query, ticket: string, running: Running): Promise<QueryEnd> {
    const { subscription, limits } = query
    const beganMs = performance.now()
    const waitMs = this.#backOff.waitMs(subscription)
    if (waitMs > 0)
      return failed(
        'QUOTA_EXCEEDED',
        `a query had to be killed; the next may run in ${Math.ceil(waitMs / 1000)} s`,
      )
    const unreadable = () => null
    let pending = this.#snapshots.get(limits.timeMs / 2).catch(unreadable)
    const lent = this.#pool.lend(subscription, limits.memoryBytes, limits.timeMs)
    running.leave = lent.leave
    const process = await lent.process
    if (running.isCancelled && typeof process === 'string')
      return failed('QUERY_WAS_CANCELLED', 'the query was cancelled')
    if (process === 'busy')
      return failed('TOO_MANY_SIMULTANEOUS_QUERIES', 'too many queries are running; try again')
    if (process === 'down')
      return failed('CANNOT_CREATE_CHILD_PROCESS', 'no query process can be started; try again')
    for (let isLast = false; ; isLast = true) {
      const snapshot = await pending
      if (running.isCancelled || snapshot === null) {
        this.#pool.giveBack(process)
        return running.isCancelled
          ? failed('QUERY_WAS_CANCELLED', 'the query was cancelled')
          : failed('CANNOT_OPEN_FILE', 'the files of the index cannot be opened; try again')
      }
      const run = new PooledQuery(query, process, performance.now() - beganMs, {
        watch: this.#watch,
        isReaderSlow: () => running.isSlow,
        onKilled: (reason) => this.#killed(reason, subscription),
        onDone: (isWorn) => {
          this.#runs.delete(run)
          this.#pool.giveBack(process, isWorn)
          this.#measure()
        },
      })
      running.run = run
      this.#runs.add(run)
      this.#measure()
      const end = await run.run(snapshot, ticket)
      if (end !== 'stale') return end
      this.#runs.delete(run)
      if (isLast) {
        // Not reused: an interrupted ATTACH may have left the file open under its name.
        this.#pool.giveBack(process, true)
        return failed('NETWORK_ERROR', 'the files of the index are being replaced; try again')
      }
      pending = this.#snapshots.renew(limits.timeMs / 2).catch(unreadable)
    }
  }

  #killed(reason: KillReason, subscription: string): void {
    if (reason !== 'outside') this.#backOff.killed(subscription)
    this.#deps.meters?.killed(reason)
    this.#deps.log.warn('query process killed', { reason, subscription })
  }

  #measure(): void {
    this.#deps.meters?.sizes(this.#pool.size, this.#pool.busy)
  }
}

/** The query did not run. */
function failed(name: ExceptionName, message: string): QueryEnd {
  return { error: exception(name, message), sent: 0, totals: noTotals }
}
