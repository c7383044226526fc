// The protocol of the execution pipeline: blocks are analysed in parallel by workers that may hang
// or die at any point, while the trackers are fed, and results are delivered, in block order.
// Threads: BlockJobs main, BlockAnalyst each analysis worker, SyncTable both and the source thread.
//
//   main (BlockJobs)                  shared memory                    worker (BlockAnalyst)
//
//   submit: block gets ticket n
//   #fill: a batch for each
//     free worker, with the round ------------------------------------> acquireScratch(n)
//                                     scratch area: n + 1 <------------   lock, and sign of life
//                                     event ring: its records -------->   contention, in parallel
//                                     turn: n, state 0 --------------->   awaitTurn(n)
//                                     state 1: copy of 0, then fed <---   #feed: the copy, and
//                                     tops: entry n = fed, lists <-----   the result of n
//                                     turn: n + 1, state 1 <-----------   pass: now it counts
//   #settle <---------------------------------------------------------- result, releaseScratch
//   #advance: deliver 7, 8, ...
//
//   ticket   a block's position in the order; the newest jobsMax are in flight
//   turn     the ticket whose block may feed the trackers, and which of their two states is
//            current: one word, so that one store commits a block, wholly or not at all
//   entry    what the trackers said after a ticket, or that it was skipped; outlives its worker
//   round    the number of failures; a worker that waits for a turn under an older round returns
//            `retry`, because an earlier block has to be analysed again first
//   scratch  a worker's area for one block; its word is the ticket in it + 1, or 0
//   suspect  a block of a batch whose worker failed: retried alone, so that the others go on
//
// The queue of BlockJobs keeps blocks and the calls between them (`after`) in order:
//
//   entries  [ job 7: done | job 8: running | call | job 9: running | call | call ]
//              ^ delivered at once            ^ waits for 8
//
// Each worker has one batch of jobs at a time, because a pool's queue does not keep the order, and
// a job that waits for its turn must not keep an earlier one from a worker. A batch is one block,
// unless blocks pile up: then it saves the wake-ups between them.
//
// A worker that fails affects its own batch only:
//   dies before its `pass`   the turn is still n and the current state untouched: n is retried
//   dies after its `pass`    the turn is past n: the retry feeds nothing and reads entry n
//   hangs                    #abortHung ends its thread; from then on it is one that died
//   throws                   as one that died, but the thread and its free scratch stay
// #fail starts a new round, which calls the waiting workers back. No job starts until all batches
// have returned; then #advance frees the scratch of the dead, and the unfinished jobs are started
// in order, suspects one by one. The third failure alone gives a block up: main passes its turn.
//
// A worker hangs when its batch shows the same ticket for too long, by what the areas show:
//   ticket <= turn   it waits for no other block: the timeout is hangMs
//   ticket >  turn   it waits for its turn, for as long as the block before it takes
//   no ticket        its worker is starting: the timeout is startMs
// Time is counted in looks: an event-loop stall delays them and must not count against workers.
//
//   sync table, a cache line for each writer (no false sharing)
//     0  secret of the hash, 64 bytes                        (main, once)
//   128  turn: ticket << 1 | current state                   (the worker whose turn it is; main
//                                                             for a block that it gives up)
//   256  round                                               (main)
//   384  scratch areas: ticket + 1 of the block in it, or 0  (workers; main when none runs)
//   512  last source event: seqno x 8, a shared position     (source thread)
//   640  when it was read: us x 8, a shared position         (source thread)
//
//   entry of a ticket   0 outcome u32 (0 none, 1 fed, 2 skipped)   8 accounts u32
//                      12 storage slots u32   16 accounts, 40 bytes each   then slots, 72 bytes
import { assert } from '../../base/errors.ts'
import { isIntact } from '../../base/rings/checkpoints.ts'
import {
  cacheLineBytes,
  dataByte,
  loadPosition,
  openViews,
  type RingViews,
  storePosition,
} from '../../base/rings/layout.ts'
import {
  type AnalysisMemory,
  analysed,
  formatState,
  openProgram,
  type Program,
  syncTableBytes,
  topBytes,
  topEntries,
} from './memory.ts'

/** Blocks that may be waiting or running at once. */
export const jobsMax = 32
/** Most blocks in one worker's batch when they pile up. */
const batchMax = 8
/** Most entries in the queue, callbacks included. */
const entriesMax = 1024
/** A block whose worker failed this often is not retried any more. */
const attemptsMax = 3
/** Time between two looks at the running batches. */
const lookMs = 250
/** A block is analysed in milliseconds; one of 15,000 transactions in a tenth of this. */
const hangMs = 2000
const startMs = 10_000

export interface BlockJob {
  /** The block's position in the order in which the trackers are fed. */
  readonly ticket: number
  readonly round: number
  /** Ring positions of its records. */
  readonly from: number
  readonly to: number
  readonly number: number
  readonly wallNs: number
  readonly timestampSecs: number
}

export type LossReason = 'overrun' | 'malformed' | 'too-large'

export type BlockResult =
  | {
      readonly outcome: 'done'
      /** JSON of ContentionData and of TopAccesses. */
      readonly contention: Uint8Array
      readonly top: Uint8Array
      /** The transactions' records, as block-text.ts reads them. */
      readonly transactions: Uint8Array
      // All three are views of one shared buffer of their own: transferred without a copy.
    }
  | { readonly outcome: 'lost'; readonly reason: LossReason }
  /** An earlier block must be retried first; submit this job again after it. */
  | { readonly outcome: 'retry' }

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
  /** The ticket that it showed at the last look, if any, and for how many looks. */
  shown: number | null
  looks: number
}

type Entry = JobEntry | { readonly deliver: () => void; readonly ticket: null }

export class BlockJobs {
  readonly #options: BlockJobsOptions
  readonly #entries: Entry[] = []
  readonly #waiting: (() => void)[] = []
  #nextTicket: number
  readonly #running = new Set<Running>()
  readonly #timer: NodeJS.Timeout
  #jobs = 0
  #isRecovering = false
  #isClosed = false

  constructor(options: BlockJobsOptions) {
    assert(jobsMax < topEntries, 'every block in flight has an entry of its own')
    this.#options = options
    this.#nextTicket = options.syncTable.turn().ticket
    this.#timer = setInterval(() => this.#abortHung(), lookMs).unref()
  }

  get isFull(): boolean {
    return this.#jobs >= jobsMax || this.#entries.length >= entriesMax
  }

  get isIdle(): boolean {
    return this.#entries.length === 0
  }

  /** Analyses a block; calls `deliver` when it and everything before it is done. */
  submit(spec: BlockSpec, deliver: (outcome: JobOutcome) => void): void {
    assert(this.#jobs < jobsMax, 'no more blocks are in flight than have entries')
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
    const tickets = batch.map(({ ticket }) => ticket)
    const running: Running = { tickets, end: new AbortController(), shown: null, looks: -1 }
    for (const entry of batch) entry.isRunning = true
    this.#running.add(running)
    assert(this.#running.size <= this.#options.workers, 'a worker has one batch at a time')
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

  /** A batch that was aborted already takes no notice of a second time. */
  #abortHung(): void {
    const working = this.#options.syncTable.working()
    const turn = this.#options.syncTable.turn().ticket
    for (const batch of this.#running) {
      const shown = batch.tickets.find((own) => working.includes(own)) ?? null
      const isWaiting = shown !== null && shown !== turn && !isTurnOver(shown, turn)
      batch.looks = !isWaiting && batch.shown === shown ? batch.looks + 1 : 0
      batch.shown = shown
      if (batch.looks * lookMs >= (shown === null ? startMs : hangMs)) batch.end.abort()
    }
  }

  #settle(batch: readonly JobEntry[], results: readonly BlockResult[]): void {
    assert(results.length === batch.length, 'a batch returns a result for each of its jobs')
    for (const [index, entry] of batch.entries()) {
      entry.isRunning = false
      const result = results[index]!
      if (result.outcome === 'retry') this.#isRecovering = true
      else entry.outcome = result
    }
    this.#advance()
  }

  #fail(batch: readonly JobEntry[], error: unknown): void {
    if (this.#isClosed) return
    for (const entry of batch) {
      entry.isRunning = false
      entry.isSuspect = true
      if (batch.length === 1) entry.attempts += 1
    }
    this.#options.onFailure(error, batch[0]!.attempts >= attemptsMax)
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
    if (this.#isRecovering && this.#running.size === 0) {
      // No worker is in a block: the scratch areas in use are those of dead workers.
      this.#isRecovering = false
      this.#options.syncTable.clearScratch()
    }
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
}

/** Elements of each list of TopAccesses. */
const topLimit = 10
const accountEntryBytes = 40
/** Upper bound of the TopAccesses text: ten elements of at most 130 and ten of 210 bytes. */
const topTextMax = 4096
/** Trackers reset when block timestamps enter a new window. */
const windowSecs = 300

const fed = 1
const skipped = 2

export class BlockAnalyst {
  readonly #at: AnalysisMemory
  readonly #syncTable: SyncTable
  readonly #program: Program
  readonly #ring: RingViews
  readonly #bytes: Uint8Array<SharedArrayBuffer>
  readonly #words: Uint32Array<SharedArrayBuffer>
  readonly #windows: Float64Array<SharedArrayBuffer>
  readonly #fence = new Int32Array(1)

  constructor(at: AnalysisMemory) {
    this.#at = at
    this.#syncTable = new SyncTable(at)
    this.#program = openProgram(at)
    this.#ring = openViews(at.eventRing)
    this.#bytes = new Uint8Array(at.memory.buffer)
    this.#words = new Uint32Array(at.memory.buffer)
    this.#windows = new Float64Array(at.memory.buffer)
  }

  /** Analyses the jobs in order; after one that was called back, all others are too. */
  analyseAll(jobs: readonly BlockJob[]): BlockResult[] {
    const results: BlockResult[] = []
    for (const job of jobs) {
      const last = results.at(-1)
      results.push(last?.outcome === 'retry' ? last : this.analyse(job))
    }
    return results
  }

  analyse(job: BlockJob): BlockResult {
    const area = this.#syncTable.acquireScratch(job.ticket)
    // Locked by a worker that died; the main thread frees it before the retry.
    if (area < 0) return { outcome: 'retry' }
    try {
      return this.#analyse(job, this.#at.scratch + area * this.#at.scratchBytes)
    } finally {
      this.#syncTable.releaseScratch(area)
    }
  }

  #analyse(job: BlockJob, scratch: number): BlockResult {
    const program = this.#program
    program.useScratch(scratch, this.#at.scratchBytes)
    const ringData = this.#at.eventRing.byteOffset + dataByte
    const { from, to, number, wallNs } = job
    const code = program.analyse(ringData, this.#ring.capacity, from, to, number, wallNs)
    const loss = this.#lossOf(code, from)
    // Unless an earlier attempt passed the turn on and died afterwards.
    if (!isTurnOver(job.ticket, this.#syncTable.turn().ticket)) {
      const turn = this.#syncTable.awaitTurn(job.ticket, job.round)
      if (turn === null) return { outcome: 'retry' }
      if (loss !== null) this.#skip(turn)
      else this.#feed(turn, job)
    }
    if (loss !== null) return { outcome: 'lost', reason: loss }
    const entry = this.#entryOf(job.ticket)
    if (this.#words[entry / 4] !== fed) return { outcome: 'lost', reason: 'overrun' }
    return this.#result(entry)
  }

  #lossOf(code: number, from: number): LossReason | null {
    // Checked after reading: any damage is explained by records overwritten in the meantime.
    if (!isIntact(this.#ring, from, this.#fence)) return 'overrun'
    if (code === analysed.damaged) return 'malformed'
    return code === analysed.tooLarge ? 'too-large' : null
  }

  #feed(turn: Turn, job: BlockJob): void {
    assert(turn.ticket === job.ticket, 'a block is fed in its turn')
    const next = turn.state === 0 ? 1 : 0
    const { states, stateBytes, accountTracker, storageTracker } = this.#at
    const from = states + turn.state * stateBytes
    const to = states + next * stateBytes
    this.#bytes.copyWithin(to, from, from + stateBytes)
    const window = Math.floor(job.timestampSecs / windowSecs)
    if (this.#windows[to / 8] !== window) {
      formatState(this.#at, this.#program, to)
      this.#windows[to / 8] = window
    }
    this.#program.feed(to + accountTracker, to + storageTracker)
    // Feeding reads keys from the ring again: the copy becomes current only if the ring is intact.
    if (!isIntact(this.#ring, job.from, this.#fence)) {
      this.#skip(turn)
      return
    }
    const entry = this.#entryOf(turn.ticket)
    const accounts = this.#program.writeTop(to + accountTracker, topLimit, entry + 16)
    const storageAt = entry + 16 + accounts * accountEntryBytes
    const storages = this.#program.writeTop(to + storageTracker, topLimit, storageAt)
    this.#words[entry / 4 + 2] = accounts
    this.#words[entry / 4 + 3] = storages
    this.#words[entry / 4] = fed
    this.#syncTable.pass(turn.ticket, next)
  }

  #skip(turn: Turn): void {
    this.#words[this.#entryOf(turn.ticket) / 4] = skipped
    this.#syncTable.pass(turn.ticket, turn.state)
  }

  #result(entry: number): BlockResult {
    const { textAt, textBytes, headersAt, headersBytes } = this.#program
    const textEnd = textBytes.value
    const headersEnd = textEnd + headersBytes.value
    const all = new Uint8Array(new SharedArrayBuffer(headersEnd + topTextMax))
    all.set(this.#view(textAt.value, textBytes.value))
    all.set(this.#view(headersAt.value, headersBytes.value), textEnd)
    // The text of ContentionData is already copied; its buffer is free for reuse.
    const topBytes = this.#encodeTop(entry, textAt.value)
    all.set(this.#view(textAt.value, topBytes), headersEnd)
    return {
      outcome: 'done',
      contention: all.subarray(0, textEnd),
      top: all.subarray(headersEnd, headersEnd + topBytes),
      transactions: all.subarray(textEnd, headersEnd),
    }
  }

  #encodeTop(entry: number, to: number): number {
    const accounts = this.#words[entry / 4 + 2]!
    const storages = this.#words[entry / 4 + 3]!
    const storageAt = entry + 16 + accounts * accountEntryBytes
    return this.#program.encodeTop(to, entry + 16, accounts, storageAt, storages)
  }

  #entryOf(ticket: number): number {
    return this.#at.tops + (ticket % topEntries) * topBytes
  }

  #view(at: number, length: number): Uint8Array {
    return this.#bytes.subarray(at, at + length)
  }
}

const line = cacheLineBytes / 4
const turnAt = line
const roundAt = 2 * line
const scratchAt = 3 * line
const seqnoAt = 4 * line
const readAt = 5 * line

/** Tickets are counted modulo this, so that a ticket and the current state fit a word. */
const ticketModulus = 2 ** 29
/** Whether a ticket had its turn before `turn`; tickets in use are far closer than half of all. */
function isTurnOver(ticket: number, turn: number): boolean {
  const ahead = (turn - ticket + ticketModulus) % ticketModulus
  return ahead !== 0 && ahead < ticketModulus / 2
}

/** Timeout of one wait: a waiting worker checks the round this often. */
const waitMs = 100

interface Turn {
  readonly ticket: number
  readonly state: 0 | 1
}

export class SyncTable {
  readonly #words: Int32Array<SharedArrayBuffer>
  readonly #workers: number

  constructor(at: {
    readonly memory: { readonly buffer: SharedArrayBuffer }
    readonly syncTable: number
    readonly workers: number
  }) {
    this.#words = new Int32Array(at.memory.buffer, at.syncTable, syncTableBytes / 4)
    this.#workers = at.workers
  }

  turn(): Turn {
    // Acquire: the state that the turn names is completely written.
    const word = Atomics.load(this.#words, turnAt)
    return { ticket: word >>> 1, state: (word & 1) as 0 | 1 }
  }

  /** Gives the turn to the next ticket, with `state` as the current one: both in one store. */
  pass(ticket: number, state: 0 | 1): void {
    assert(this.turn().ticket === ticket, 'only the block whose turn it is passes it on')
    const next = (ticket + 1) % ticketModulus
    // Release: who sees the new turn sees the trackers and the entry as this thread left them.
    Atomics.store(this.#words, turnAt, (next << 1) | state)
    Atomics.notify(this.#words, turnAt)
  }

  /**
   * Blocks until it is the ticket's turn. Null when the main thread has called the workers back
   * since `round`, because an earlier block must be retried first. For workers.
   */
  awaitTurn(ticket: number, round: number): Turn | null {
    for (;;) {
      const turn = this.turn()
      if (turn.ticket === ticket) return turn
      // Checked after the turn, so that a ticket whose turn it is continues whatever the round is.
      if (Atomics.load(this.#words, roundAt) !== round) return null
      Atomics.wait(this.#words, turnAt, (turn.ticket << 1) | turn.state, waitMs)
    }
  }

  round(): number {
    return Atomics.load(this.#words, roundAt)
  }

  /** Calls every waiting worker back; one that was about to wait finds out after waitMs. */
  nextRound(): void {
    Atomics.add(this.#words, roundAt, 1)
    Atomics.notify(this.#words, turnAt)
  }

  /** Acquires a free scratch area for the block of a ticket; -1 when all are in use. */
  acquireScratch(ticket: number): number {
    assert(ticket >= 0 && ticket < ticketModulus, 'tickets are counted modulo')
    for (let area = 0; area < this.#workers; area++)
      // The compare-exchange decides between two workers that see the same area free.
      if (Atomics.compareExchange(this.#words, scratchAt + area, 0, ticket + 1) === 0) return area
    return -1
  }

  /** Tickets of the blocks that workers are analysing now, in no order. */
  working(): number[] {
    const areas = Array.from({ length: this.#workers }, (_, area) => scratchAt + area)
    return areas.map((at) => Atomics.load(this.#words, at) - 1).filter((ticket) => ticket >= 0)
  }

  releaseScratch(area: number): void {
    // Release: the next block in the area comes after everything that this one did there.
    const shown = Atomics.exchange(this.#words, scratchAt + area, 0)
    assert(shown !== 0, 'a scratch area is released by the block that is in it')
  }

  /** Frees the areas of workers that died. Only while no block is being analysed. */
  clearScratch(): void {
    for (let area = 0; area < this.#workers; area++) Atomics.store(this.#words, scratchAt + area, 0)
  }

  seqno(): number {
    return loadPosition(this.#words, seqnoAt) / 8
  }

  /** When the last event was read, in the main thread's monotonic ms; 0 before the first. */
  lastEventMs(): number {
    return loadPosition(this.#words, readAt) / 8000
  }

  noteEvent(seqno: number, atMs: number): void {
    storePosition(this.#words, readAt, Math.max(0, Math.round(atMs * 1000)) * 8)
    storePosition(this.#words, seqnoAt, seqno * 8)
  }
}
