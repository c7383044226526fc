// Runs queries on the embedded DuckDB index, each in an expendable process.
//
//   run(query, ticket) -> back-off -> process of the pool -> newest snapshot -> PooledQuery
//
// DuckDB itself is never loaded into this process, and no result passes through it.
// Thread: main of the query program.
import { rm } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join, resolve } from 'node:path'
import { backoffMs } from '../../base/clock.ts'
import { Fault, messageOf } from '../../base/errors.ts'
import type { Log } from '../../base/telemetry/log.ts'
import {
  codeOf,
  type ExceptionName,
  exception,
  type QueryError,
  statusOf,
} from '../clickhouse/exceptions.ts'
import { queryBytes, queryProcesses } from '../config.ts'
import type { Query, QueryEnd, QueryEngine, SentQuery } from '../engine.ts'
import type { KillReason, QueryProcessMeters } from '../meters.ts'
import { noTotals, type ResultAddress } from '../queries/protocol.ts'
import type { ProcessOptions, QueryReport } from './query-process.ts'
import { overheadBytes, QueryProcess } from './query-process.ts'
import { LatestSnapshot } from './snapshot-socket.ts'
import { openFolder, type StoreSnapshot } from './store-files.ts'
import { BackOff, QueryWatch, type Watched } from './watch.ts'

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
    const waitSecs = Math.ceil(this.#backOff.waitMs(subscription) / 1000)
    if (waitSecs > 0)
      return failed('QUOTA_EXCEEDED', `a query was killed; the next may run in ${waitSecs} s`)
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
  const error = exception(name, message)
  return { error, sent: 0, totals: noTotals, isRefused: statusOf(error) === 429 }
}

// Pool of query processes: a few kept warm, more on demand, each lent to one query at a time.
// One subscription never has more than half of them. Starts that fail are retried
// with exponential back-off, one at a time, until one succeeds.

interface PoolOptions {
  readonly folder: string
  /** Processes at once, busy and idle. */
  readonly processesMax: number
  /** Processes that are kept, also idle. */
  readonly warm: number
  /** Short queries that run at once. */
  readonly parallel: number
  /** Resident memory that all processes together may take; at least that of the warm ones. */
  readonly totalBytes: number
  readonly threads: number
  /** Memory limit of most queries; queries with a higher limit get a larger process. */
  readonly memoryBytes: number
  readonly results: ResultAddress
}

/** Why a query got no process: all are in use, or none can be started. */
type NoProcess = 'busy' | 'down'

interface Lent {
  readonly process: Promise<QueryProcess | NoProcess>
  /** The query does not wait any more. */
  readonly leave: () => void
}

interface Waiting {
  readonly subscription: string
  readonly memoryBytes: number
  readonly sinceMs: number
  take(process: QueryProcess | NoProcess): void
}

/** Most queries that wait for a process; more are refused at once. */
const waitingMax = 256
/**
 * A query that runs longer is not a short one. A further process is started for a query that waits
 * this long while no process has become free for as long: starting one takes as much time as many
 * short queries, which are faster served by the processes that exist.
 */
const shortMs = 250
/**
 * A process with this many queries or this much memory is replaced by a new one, whose start takes
 * as much CPU time as 100 short queries.
 */
const runsMax = 10_000
const idleRssBytesMax = 300_000_000
/** After failed starts. */
const backoff = { firstMs: 200, lastMs: 5_000 }

export class QueryPool {
  readonly #options: PoolOptions
  readonly #log: Log
  /** In the order in which they became idle. */
  #idle: QueryProcess[] = []
  readonly #all = new Set<QueryProcess>()
  /** Busy processes, the subscription whose query they run, and since when. */
  readonly #lent = new Map<QueryProcess, { readonly subscription: string; readonly atMs: number }>()
  /** When a process was last lent. */
  #lentMs = 0
  #waiting: Waiting[] = []
  #isStarting = false
  #made = 0
  #isStopping = false
  /** Consecutive failed starts. */
  #failures = 0

  constructor(options: PoolOptions, log: Log) {
    this.#options = options
    this.#log = log
  }

  get size(): number {
    return this.#all.size
  }

  get busy(): number {
    return this.#lent.size
  }

  /**
   * Resolves with the version of the engine when the first process is ready. The other warm ones
   * start with the first query or the first refresh: a start needs one.
   */
  async start(): Promise<string> {
    const first = await this.#launch(this.#options.memoryBytes)
    this.#idle.push(first)
    return first.version
  }

  /** A process for one query, or why none was available before the timeout or before `leave`. */
  lend(subscription: string, memoryBytes: number, timeoutMs: number): Lent {
    if (this.#isStopping || this.#waiting.length >= waitingMax)
      return { process: Promise.resolve('busy'), leave() {} }
    let leave = () => {}
    const process = new Promise<QueryProcess | NoProcess>((resolve) => {
      const late = () => waiting.take(this.#isDown(waiting.memoryBytes) ? 'down' : 'busy')
      const timer = setTimeout(late, timeoutMs)
      const overdue = setInterval(() => this.#match(), shortMs)
      const waiting: Waiting = {
        subscription,
        memoryBytes: classOf(memoryBytes, this.#options),
        sinceMs: performance.now(),
        take: (process) => {
          clearTimeout(timer)
          clearInterval(overdue)
          this.#waiting = this.#waiting.filter((one) => one !== waiting)
          resolve(process)
        },
      }
      leave = () => {
        if (this.#waiting.includes(waiting)) waiting.take('busy')
      }
      this.#waiting.push(waiting)
      this.#match()
    })
    return { process, leave }
  }

  /** Returns an idle process to the pool. */
  giveBack(process: QueryProcess, isWorn = false): void {
    this.#lent.delete(process)
    const isOld = process.runs >= runsMax || process.rssBytes() > idleRssBytesMax
    if (isWorn || isOld || this.#isStopping) process.kill()
    else this.#idle.push(process)
    this.#match()
  }

  /** Makes idle processes close the files that are no longer in the snapshot. */
  async refresh(snapshot: StoreSnapshot): Promise<void> {
    const spare = this.#idle.splice(0, Math.max(0, this.#idle.length - this.#options.warm))
    for (const process of spare) process.kill()
    for (const process of [...this.#idle]) {
      const at = this.#idle.indexOf(process)
      if (at === -1) continue
      this.#idle.splice(at, 1)
      await process.refresh(snapshot)
      this.#idle.push(process)
      this.#match()
    }
    this.#match()
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    for (const waiting of [...this.#waiting]) waiting.take('busy')
    const all = [...this.#all]
    for (const process of all) process.kill()
    await Promise.all(all.map((process) => process.ended))
  }

  #match(): void {
    // A process that was killed may still have reported its query.
    this.#idle = this.#idle.filter(({ isGone, isEnding }) => !isGone && !isEnding)
    const shareMax = Math.max(1, Math.floor(this.#options.processesMax / 2))
    for (const waiting of [...this.#waiting]) {
      const lent = [...this.#lent.values()]
      const share = lent.filter(({ subscription }) => subscription === waiting.subscription)
      if (share.length >= shareMax) continue
      // The last used one has the most files of the newest snapshot open.
      const at = this.#idle.findLastIndex((one) => one.memoryBytes === waiting.memoryBytes)
      if (at === -1) {
        if (!this.#isStarting && this.#isOverdue(waiting)) {
          this.#makeRoom(waiting.memoryBytes)
          this.#launchFor(waiting.memoryBytes)
        }
        continue
      }
      // More than the cores can run at once would only take longer, each in a process that has
      // to open the files of every snapshot.
      const nowMs = performance.now()
      const short = lent.filter(({ atMs }) => nowMs - atMs < shortMs)
      if (short.length >= this.#options.parallel) continue
      const [process] = this.#idle.splice(at, 1)
      this.#lent.set(process!, { subscription: waiting.subscription, atMs: nowMs })
      this.#lentMs = nowMs
      waiting.take(process!)
    }
    this.#keepWarm()
  }

  #isOverdue({ memoryBytes, sinceMs }: Waiting): boolean {
    const isAlive = [...this.#all].some((one) => one.memoryBytes === memoryBytes)
    const waitedMs = performance.now() - Math.max(sinceMs, this.#lentMs)
    // A timer may fire a little early.
    return !isAlive || waitedMs >= shortMs - 1
  }

  /** Kills an idle process of another size when the pool is full, and none ends already. */
  #makeRoom(memoryBytes: number): void {
    if (this.#hasRoom(memoryBytes) || [...this.#all].some((one) => one.isEnding)) return
    this.#idle.shift()?.kill()
  }

  /** True when one more process is within both limits. */
  #hasRoom(memoryBytes: number): boolean {
    const { processesMax, totalBytes } = this.#options
    const sizes = [memoryBytes, ...[...this.#all].map((one) => one.memoryBytes)]
    const bytes = sizes.reduce((sum, size) => sum + size + overheadBytes, 0)
    return this.#all.size < processesMax && bytes <= totalBytes
  }

  #keepWarm(): void {
    const { memoryBytes, warm } = this.#options
    const alive = [...this.#all].filter((one) => one.memoryBytes === memoryBytes).length
    if (alive < warm) this.#launchFor(memoryBytes)
  }

  /** True while processes of this size neither exist nor can be started. */
  #isDown(memoryBytes: number): boolean {
    const isAlive = (one: QueryProcess) => one.memoryBytes === memoryBytes && !one.isGone
    return this.#failures > 0 && ![...this.#all].some(isAlive)
  }

  #launchFor(memoryBytes: number): void {
    // One at a time: several starts at once would take the CPU from the queries that run.
    if (this.#isStopping || this.#isStarting || !this.#hasRoom(memoryBytes)) return
    const waitMs = this.#failures === 0 ? 0 : backoffMs(this.#failures, backoff)
    this.#isStarting = true
    setTimeout(() => {
      this.#launch(memoryBytes)
        .then(
          (process) => {
            this.#failures = 0
            this.#idle.push(process)
          },
          (error: unknown) => this.#failed(memoryBytes, error),
        )
        .finally(() => {
          this.#isStarting = false
          this.#match()
        })
    }, waitMs).unref()
  }

  /** Refuses waiting queries now instead of at their timeout when no process can start. */
  #failed(memoryBytes: number, error: unknown): void {
    if (this.#isStopping) return
    this.#failures += 1
    const reason = messageOf(error)
    this.#log.warn('query process start failed', { reason, failures: this.#failures })
    if (!this.#isDown(memoryBytes)) return
    for (const waiting of this.#waiting.filter((one) => one.memoryBytes === memoryBytes))
      waiting.take('down')
  }

  async #launch(memoryBytes: number): Promise<QueryProcess> {
    if (this.#isStopping) throw new Fault('query-process', 'the server is stopping')
    this.#made += 1
    const { folder, threads, results } = this.#options
    const options: ProcessOptions = { folder, number: this.#made, memoryBytes, threads, results }
    const process = await QueryProcess.start(options)
    if (this.#isStopping) process.kill()
    this.#all.add(process)
    void process.ended.then(() => {
      this.#all.delete(process)
      this.#lent.delete(process)
      this.#match()
    })
    return process
  }
}

/**
 * Few sizes, so that processes can be shared, and none that leaves no memory for the warm ones.
 * QueryWatch enforces each query's own limit.
 */
function classOf(bytes: number, { memoryBytes, warm, totalBytes }: PoolOptions): number {
  let size = memoryBytes
  while (size < bytes) size *= 2
  const left = totalBytes - warm * (memoryBytes + overheadBytes) - overheadBytes
  return Math.max(memoryBytes, Math.min(size, left))
}

// Runs one query in a process of the pool, until it has sent its last byte to the gateway.
//
//   process.run(job) --report--> totals, error      cancel, timeout and memory limit end it
//        '--bytes--> the gateway's result socket    backpressure: its reader sets the pace

type EndReason = 'cancel' | 'time' | 'memory'

interface RunDeps {
  readonly watch: QueryWatch
  isReaderSlow(): boolean
  /** The process was killed, or crashed; `outside` when the query is not the reason. */
  onKilled(reason: 'memory' | 'time' | 'crash' | 'outside'): void
  /** The query is done. A worn process (at its memory limit) is not reused. */
  onDone(isWorn: boolean): void
}

/** A process that gets no more memory ends itself with one of these. */
const abortSignals: ReadonlySet<string | null> = new Set(['SIGABRT', 'SIGTRAP'])
/** Signals from outside: the system's or an operator's. */
const killSignals: ReadonlySet<string | null> = new Set(['SIGKILL', 'SIGTERM', 'SIGINT'])
/** A process killed above this part of its memory limit was killed for its memory. */
const NEAR_LIMIT = 0.8

export class PooledQuery implements Watched {
  readonly rssBytesMax: number
  readonly timeMsMax: number
  readonly #query: Query
  readonly #process: QueryProcess
  readonly #deps: RunDeps
  readonly #beganMs = performance.now()
  #reason: EndReason | null = null
  #isKilled = false
  #rssBytesSeen = 0
  #isDone = false

  /** `waitedMs` of the query's time limit are already spent. */
  constructor(query: Query, process: QueryProcess, waitedMs: number, deps: RunDeps) {
    this.#query = query
    this.#process = process
    this.#deps = deps
    this.timeMsMax = Math.max(1, query.limits.timeMs - waitedMs)
    this.rssBytesMax = Math.min(process.rssBytesMax, query.limits.memoryBytes + overheadBytes)
  }

  /** Resolves when the process is idle or gone; `stale` when a new snapshot is needed. */
  async run(snapshot: StoreSnapshot, ticket: string): Promise<QueryEnd | 'stale'> {
    const { watch, onKilled, onDone } = this.#deps
    watch.add(this)
    const { id: _, ...query } = this.#query
    const report = await this.#process.run({ ...query, snapshot, ticket })
    watch.remove(this)
    if (report?.isStale === true && this.#reason === null) return 'stale'
    this.#isDone = true
    const error = this.#error(report)
    const isOver = this.#process.isGone || this.#isKilled
    if (isOver && this.#reason !== 'cancel') onKilled(this.#deathReason())
    // An interrupted ATTACH may have left the file open under its name.
    const isWorn = report?.error?.code === codeOf.MEMORY_LIMIT_EXCEEDED
    onDone(isWorn || report?.isStale === true)
    const elapsedMs = performance.now() - this.#beganMs
    if (report === null) return { error, sent: null, totals: { ...noTotals, elapsedMs } }
    const { rows, bytes, readRows } = report
    const sent = this.#reason === null ? bytes : null
    return { error, sent, totals: { rows, bytes, elapsedMs, readRows } }
  }

  /** Ends the query in whatever state it is: its result is then cut, even a complete one. */
  end(reason: EndReason): void {
    if (this.#isDone || this.#reason !== null) return
    this.#reason = reason
    this.#deps.watch.endRequested(this)
    this.#process.interrupt()
  }

  rssBytes(): number {
    const bytes = this.#process.rssBytes()
    this.#rssBytesSeen = Math.max(this.#rssBytesSeen, bytes)
    return bytes
  }

  isReaderSlow(): boolean {
    return this.#deps.isReaderSlow()
  }

  onTimeout(): void {
    this.end('time')
  }

  onKill(reason: 'memory' | 'time'): void {
    if (this.#isKilled) return
    this.#isKilled = true
    this.#reason ??= reason
    this.#process.kill()
  }

  /** Why the process is gone. */
  #deathReason(): 'memory' | 'time' | 'crash' | 'outside' {
    if (this.#isKilled && this.#reason !== null && this.#reason !== 'cancel') return this.#reason
    const { signal } = this.#process
    const isNear = this.#rssBytesSeen >= NEAR_LIMIT * this.rssBytesMax
    if (abortSignals.has(signal) || (killSignals.has(signal) && isNear)) return 'memory'
    return killSignals.has(signal) ? 'outside' : 'crash'
  }

  #error(report: QueryReport | null): QueryError | null {
    const isDead = report === null && this.#process.isGone
    switch (this.#reason ?? (isDead ? this.#deathReason() : null)) {
      case 'cancel':
        return exception('QUERY_WAS_CANCELLED', 'the query was cancelled')
      case 'time': {
        const { timeMs } = this.#query.limits
        return exception('TIMEOUT_EXCEEDED', `the query ran longer than ${timeMs} ms`)
      }
      case 'memory':
        return exception('MEMORY_LIMIT_EXCEEDED', 'the query needs more memory than it may have')
      case 'outside':
        return exception(
          'CANNOT_CREATE_CHILD_PROCESS',
          'the process of the query was ended from outside; send the query again',
        )
      case 'crash':
        return exception('UNKNOWN_EXCEPTION', 'the process of the query ended')
      default:
        return report === null
          ? exception('UNKNOWN_EXCEPTION', 'the engine gave no answer')
          : report.error
    }
  }
}
