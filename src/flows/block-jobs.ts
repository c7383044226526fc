// Runs block analyses in parallel and tells their results in the order of the blocks.
// Thread: main. Used by flows/execution.ts. Nothing overtakes: what comes between two blocks
// (`after`) waits for the blocks before it.
//
//   entries   [ job 7: done | job 8: running | tell | job 9: running | tell | tell ]
//               ^ told at once                ^ waits for 8
//
// Jobs are handed to the pool in order and never more than it has workers, because a pool's queue
// does not keep the order, and a job that waits for its turn must not keep the earlier one out.
// A worker that dies spoils only its own block. Then no job starts until all running ones are back
// (those that wait for their turn are called back), and the unfinished ones start again in order.

import { type Board, ticketModulus } from '../analysis/board.ts'
import type { BlockJob, BlockResult, LossReason } from '../analysis/job.ts'

/** Blocks that may be waiting or under way at once. */
export const jobsMax = 16
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
  /** Runs a job on some worker. Rejects when the worker died or threw. */
  readonly run: (job: BlockJob) => Promise<BlockResult>
  /** Told for each job that ended its worker; it is tried again unless given up. */
  readonly onFailure: (error: unknown, isGivenUp: boolean) => void
}

interface JobEntry {
  readonly ticket: number
  readonly spec: BlockSpec
  readonly tell: (outcome: JobOutcome) => void
  attempts: number
  isRunning: boolean
  outcome: JobOutcome | null
}

type Entry = JobEntry | { readonly tell: () => void; readonly ticket: null }

export class BlockJobs {
  readonly #options: BlockJobsOptions
  readonly #entries: Entry[] = []
  readonly #waiting: (() => void)[] = []
  #nextTicket: number
  #jobs = 0
  #running = 0
  #isRecovering = false
  #isClosed = false

  constructor(options: BlockJobsOptions) {
    this.#options = options
    this.#nextTicket = options.board.turn().ticket
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
    const entry = { ticket, spec, tell, attempts: 0, isRunning: false, outcome: null }
    this.#entries.push(entry)
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
    this.#entries.length = 0
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  /** Starts what may start: the earliest unfinished jobs, one per worker. */
  #fill(): void {
    if (this.#isRecovering || this.#isClosed) return
    for (const entry of this.#entries) {
      if (this.#running >= this.#options.workers) return
      if (entry.ticket === null || entry.isRunning || entry.outcome !== null) continue
      if (entry.attempts < attemptsMax) this.#start(entry)
    }
  }

  #start(entry: JobEntry): void {
    const { board, run } = this.#options
    const job: BlockJob = { ...entry.spec, ticket: entry.ticket, round: board.round() }
    entry.isRunning = true
    this.#running += 1
    run(job).then(
      (result) => this.#settle(entry, result),
      (error: unknown) => this.#fail(entry, error),
    )
  }

  #settle(entry: JobEntry, result: BlockResult): void {
    entry.isRunning = false
    this.#running -= 1
    if (result.outcome === 'again') this.#isRecovering = true
    else entry.outcome = result
    this.#advance()
  }

  #fail(entry: JobEntry, error: unknown): void {
    entry.isRunning = false
    this.#running -= 1
    if (this.#isClosed) return
    entry.attempts += 1
    this.#options.onFailure(error, entry.attempts >= attemptsMax)
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
    if (this.#isRecovering && this.#running === 0) this.#recover()
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
