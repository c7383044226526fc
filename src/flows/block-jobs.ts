// Runs block analyses in parallel and tells their results in the order of the blocks.
// Thread: main. Used by flows/execution.ts. Nothing overtakes: what comes between two blocks
// (`after`) waits for the blocks before it.
//
//   entries   [ job 7: done | job 8: running | tell | job 9: running | tell | tell ]
//               ^ told at once                ^ waits for 8
//
// Each worker has one batch of jobs at a time, because a pool's queue does not keep the order, and
// a job that waits for its turn must not keep the earlier one out. A batch is one block, unless
// blocks pile up: then it saves the wake-ups between them.
// A worker that dies spoils only its own block. Then no job starts until all running ones are back
// (those that wait for their turn are called back), and the unfinished ones start again in order,
// those of the batch that died one by one. A worker that hangs (hang-watch.ts) is ended and counts
// as one that died.

import { type Board, ticketModulus } from '../analysis/board.ts'
import type { BlockJob, BlockResult, LossReason } from '../analysis/job.ts'
import { HangWatch, lookMs } from './hang-watch.ts'

/** Blocks that may be waiting or under way at once. */
export const jobsMax = 32
/** Blocks that a worker gets at once when they pile up. */
const batchMax = 8
/** Other entries that may wait behind them. */
export const entriesMax = 1024
/** A block that ended its worker this often is given up. */
export const attemptsMax = 3

export type JobOutcome =
  | Extract<BlockResult, { outcome: 'done' }>
  | { readonly outcome: 'lost'; readonly reason: LossReason | 'failed' }

export type BlockSpec = Omit<BlockJob, 'ticket' | 'round'>

export interface BlockJobsOptions {
  readonly board: Board
  readonly workers: number
  /**
   * Runs a batch on some worker, a result for each. Rejects when the worker died or threw, or was
   * ended by the signal and is gone.
   */
  readonly run: (jobs: readonly BlockJob[], end: AbortSignal) => Promise<readonly BlockResult[]>
  /** Told for each job that ended its worker; it is tried again unless given up. */
  readonly onFailure: (error: unknown, isGivenUp: boolean) => void
}

interface JobEntry {
  readonly ticket: number
  readonly spec: BlockSpec
  readonly tell: (outcome: JobOutcome) => void
  attempts: number
  /** It was in a batch that ended its worker: tried alone from now on. */
  isSuspect: boolean
  isRunning: boolean
  outcome: JobOutcome | null
}

/** Jobs that one worker has at the moment. */
interface Running {
  readonly tickets: readonly number[]
  readonly end: AbortController
}

type Entry = JobEntry | { readonly tell: () => void; readonly ticket: null }

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
    this.#nextTicket = options.board.turn().ticket
    this.#hangWatch = new HangWatch(options.board)
    this.#timer = setInterval(() => this.#endHung(), lookMs).unref()
  }

  get isFull(): boolean {
    return this.#jobs >= jobsMax || this.#entries.length >= entriesMax
  }

  get isIdle(): boolean {
    return this.#entries.length === 0
  }

  /** Analyses a block; `tell` is called when it and everything before it is done. */
  submit(spec: BlockSpec, tell: (outcome: JobOutcome) => void): void {
    const ticket = this.#nextTicket
    this.#nextTicket = (ticket + 1) % ticketModulus
    const fresh = { attempts: 0, isSuspect: false, isRunning: false, outcome: null }
    this.#entries.push({ ticket, spec, tell, ...fresh })
    this.#jobs += 1
    this.#fill()
  }

  /** Calls `tell` behind everything submitted so far; at once when there is nothing. */
  after(tell: () => void): void {
    if (this.isIdle) tell()
    else this.#entries.push({ ticket: null, tell })
  }

  /** Resolves when there is room again. */
  room(): Promise<void> {
    if (!this.isFull || this.#isClosed) return Promise.resolve()
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  /** Nothing is told or started any more. */
  close(): void {
    this.#isClosed = true
    clearInterval(this.#timer)
    this.#entries.length = 0
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  /** Starts what may start: the earliest unfinished jobs, dealt out to the free workers. */
  #fill(): void {
    const free = this.#options.workers - this.#running.size
    if (this.#isRecovering || this.#isClosed || free <= 0) return
    const batches: JobEntry[][] = Array.from({ length: free }, () => [])
    let dealt = 0
    for (const entry of this.#entries) {
      if (entry.ticket === null || entry.isRunning || entry.outcome !== null) continue
      if (entry.attempts >= attemptsMax) continue
      // In turn, so that a worker that waits for its ticket waits for one block, not for a batch.
      const batch = batches[dealt % free]!
      if (batch.length === batchMax || (batch.length > 0 && entry.isSuspect)) break
      batch.push(entry)
      dealt += 1
      if (entry.isSuspect && dealt >= free) break
    }
    for (const batch of batches) if (batch.length > 0) this.#start(batch)
  }

  #start(batch: readonly JobEntry[]): void {
    const { board, run } = this.#options
    const round = board.round()
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
      if (result === undefined || result.outcome === 'again') this.#isRecovering = true
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
    this.#options.board.nextRound()
    this.#advance()
  }

  #advance(): void {
    if (this.#isClosed) return
    for (let head = this.#entries[0]; head !== undefined; head = this.#entries[0]) {
      if (head.ticket === null) {
        this.#entries.shift()
        head.tell()
        continue
      }
      const outcome = head.outcome ?? this.#giveUp(head)
      if (outcome === null) break
      this.#entries.shift()
      this.#jobs -= 1
      head.tell(outcome)
    }
    if (this.#isRecovering && this.#running.size === 0) this.#recover()
    this.#fill()
    if (!this.isFull) for (const resolve of this.#waiting.splice(0)) resolve()
  }

  /** A block that ends its workers is passed over, so that the ones behind it get their turn. */
  #giveUp(head: JobEntry): JobOutcome | null {
    if (head.attempts < attemptsMax || head.isRunning) return null
    const { board } = this.#options
    const turn = board.turn()
    // Everything before it is told; an earlier try may have passed the turn on already.
    if (turn.ticket === head.ticket) board.pass(turn.ticket, turn.state)
    return { outcome: 'lost', reason: 'failed' }
  }

  /** All are back: areas of dead workers are free, and everybody may start again. */
  #recover(): void {
    this.#isRecovering = false
    this.#options.board.clearScratch()
  }
}
