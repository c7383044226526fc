// Runs block analyses in parallel and delivers their results in block order.
// Order is strict: callbacks between two blocks (`after`) wait for the blocks before them.
//
//   entries   [ job 7: done | job 8: running | call | job 9: running | call | call ]
//               ^ delivered at once            ^ waits for 8
//
// Each worker has one batch of jobs at a time, because a pool's queue does not keep the order, and
// a job that waits for its turn must not keep an earlier one from a worker. A batch is one block,
// unless blocks pile up: then it saves the wake-ups between them.
// A worker that dies affects only its own batch. Then no job starts until all running ones have
// returned (those that wait for their turn are called back), and the unfinished ones are retried in
// order, those of the failed batch one by one. A worker that hangs (hang-watch.ts) is terminated
// and counts as one that died.

import { assert } from '../../base/assert.ts'
import type { BlockJob, BlockResult, LossReason } from '../analysis/job.ts'
import { type SyncTable, ticketModulus } from '../analysis/sync-table.ts'
import { HangWatch, lookMs } from './hang-watch.ts'

/** Blocks that may be waiting or running at once. */
export const jobsMax = 32
/** Most blocks in one worker's batch when they pile up. */
const batchMax = 8
/** Most entries in the queue, callbacks included. */
const entriesMax = 1024
/** A block whose worker failed this often is not retried any more. */
const attemptsMax = 3

export type JobOutcome =
  | Extract<BlockResult, { outcome: 'done' }>
  | { readonly outcome: 'lost'; readonly reason: LossReason | 'failed' }

export type BlockSpec = Omit<BlockJob, 'ticket' | 'round'>

export interface BlockJobsOptions {
  readonly syncTable: SyncTable
  readonly workers: number
  /**
   * Runs a batch on some worker and resolves with a result for each job. Rejects when the worker
   * died or threw, or was terminated by the signal.
   */
  readonly run: (jobs: readonly BlockJob[], end: AbortSignal) => Promise<readonly BlockResult[]>
  /** Called for each batch whose worker failed; its jobs are retried unless given up. */
  readonly onFailure: (error: unknown, isGivenUp: boolean) => void
}

interface JobEntry {
  readonly ticket: number
  readonly spec: BlockSpec
  readonly deliver: (outcome: JobOutcome) => void
  attempts: number
  /** It was in a batch whose worker failed: retried alone from now on. */
  isSuspect: boolean
  isRunning: boolean
  outcome: JobOutcome | null
}

/** The batch of jobs that one worker runs. */
interface Running {
  readonly tickets: readonly number[]
  readonly end: AbortController
}

type Entry = JobEntry | { readonly deliver: () => void; readonly ticket: null }

export class BlockJobs {
  readonly #options: BlockJobsOptions
  readonly #entries: Entry[] = []
  readonly #waiting: (() => void)[] = []
  #nextTicket: number
  readonly #running = new Set<Running>()
  readonly #hangWatch: HangWatch<Running>
  readonly #timer: NodeJS.Timeout
  #jobs = 0
  #isRecovering = false
  #isClosed = false

  constructor(options: BlockJobsOptions) {
    this.#options = options
    this.#nextTicket = options.syncTable.turn().ticket
    this.#hangWatch = new HangWatch(options.syncTable)
    this.#timer = setInterval(() => this.#endHung(), lookMs).unref()
  }

  get isFull(): boolean {
    return this.#jobs >= jobsMax || this.#entries.length >= entriesMax
  }

  get isIdle(): boolean {
    return this.#entries.length === 0
  }

  /** Analyses a block; calls `deliver` when it and everything before it is done. */
  submit(spec: BlockSpec, deliver: (outcome: JobOutcome) => void): void {
    const ticket = this.#nextTicket
    this.#nextTicket = (ticket + 1) % ticketModulus
    const fresh = { attempts: 0, isSuspect: false, isRunning: false, outcome: null }
    this.#entries.push({ ticket, spec, deliver, ...fresh })
    this.#jobs += 1
    this.#fill()
  }

  /** Calls `deliver` after everything submitted so far; at once when the queue is empty. */
  after(deliver: () => void): void {
    if (this.isIdle) deliver()
    else this.#entries.push({ ticket: null, deliver })
  }

  /** Backpressure: resolves when another entry may be queued. */
  waitForCapacity(): Promise<void> {
    if (!this.isFull || this.#isClosed) return Promise.resolve()
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  /** Discards the queue: nothing is delivered or started any more. */
  close(): void {
    this.#isClosed = true
    clearInterval(this.#timer)
    this.#entries.length = 0
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  /** Starts the earliest unfinished jobs, spread over the free workers. */
  #fill(): void {
    const free = this.#options.workers - this.#running.size
    if (this.#isRecovering || this.#isClosed || free <= 0) return
    const batches: JobEntry[][] = Array.from({ length: free }, () => [])
    let dealt = 0
    for (const entry of this.#entries) {
      if (entry.ticket === null || entry.isRunning || entry.outcome !== null) continue
      if (entry.attempts >= attemptsMax) continue
      // Round-robin, so that a worker that waits for its ticket waits for one block, not a batch.
      const batch = batches[dealt % free]!
      if (batch.length === batchMax || (batch.length > 0 && entry.isSuspect)) break
      batch.push(entry)
      dealt += 1
      if (entry.isSuspect && dealt >= free) break
    }
    for (const batch of batches) if (batch.length > 0) this.#start(batch)
  }

  #start(batch: readonly JobEntry[]): void {
    const { syncTable, run } = this.#options
    const round = syncTable.round()
    const running = { tickets: batch.map(({ ticket }) => ticket), end: new AbortController() }
    for (const entry of batch) entry.isRunning = true
    this.#running.add(running)
    const jobs = batch.map(({ spec, ticket }) => ({ ...spec, ticket, round }))
    run(jobs, running.end.signal).then(
      (results) => {
        this.#running.delete(running)
        this.#settle(batch, results)
      },
      (error: unknown) => {
        this.#running.delete(running)
        this.#fail(batch, error)
      },
    )
  }

  #endHung(): void {
    for (const { end } of this.#hangWatch.look(this.#running)) end.abort()
  }

  #settle(batch: readonly JobEntry[], results: readonly BlockResult[]): void {
    for (const [index, entry] of batch.entries()) {
      entry.isRunning = false
      const result = results[index]
      if (result === undefined || result.outcome === 'retry') this.#isRecovering = true
      else entry.outcome = result
    }
    this.#advance()
  }

  #fail(batch: readonly JobEntry[], error: unknown): void {
    for (const entry of batch) entry.isRunning = false
    if (this.#isClosed) return
    const [first] = batch
    if (batch.length === 1 && first !== undefined) first.attempts += 1
    for (const entry of batch) entry.isSuspect = true
    this.#options.onFailure(error, batch.length === 1 && first!.attempts >= attemptsMax)
    this.#isRecovering = true
    this.#options.syncTable.nextRound()
    this.#advance()
  }

  #advance(): void {
    if (this.#isClosed) return
    for (let head = this.#entries[0]; head !== undefined; head = this.#entries[0]) {
      if (head.ticket === null) {
        this.#entries.shift()
        head.deliver()
        continue
      }
      const outcome = head.outcome ?? this.#giveUp(head)
      if (outcome === null) break
      this.#entries.shift()
      this.#jobs -= 1
      assert(this.#jobs >= 0, 'jobs in order are counted')
      head.deliver(outcome)
    }
    if (this.#isRecovering && this.#running.size === 0) this.#recover()
    this.#fill()
    if (!this.isFull) for (const resolve of this.#waiting.splice(0)) resolve()
  }

  /** Skips a block that makes its workers fail, so that the blocks after it get their turn. */
  #giveUp(head: JobEntry): JobOutcome | null {
    if (head.attempts < attemptsMax || head.isRunning) return null
    const { syncTable } = this.#options
    const turn = syncTable.turn()
    // Everything before it was delivered; an earlier attempt may have passed the turn on already.
    if (turn.ticket === head.ticket) syncTable.pass(turn.ticket, turn.state)
    return { outcome: 'lost', reason: 'failed' }
  }

  /** All batches returned: frees the scratch areas of dead workers and lets jobs start. */
  #recover(): void {
    this.#isRecovering = false
    this.#options.syncTable.clearScratch()
  }
}
