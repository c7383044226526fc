// Analyses one block per job: contention, and top accesses. Thread: analysis worker.
// Contention is computed in parallel with other blocks; the trackers are fed in ticket order, on a
// copy of their state that becomes the current one by a single store. So a worker may die at any
// point: the block is retried, and a block that was already fed finds its result in the entry of
// its ticket.
//
//   entry of a ticket   0 outcome u32 (0 none, 1 fed, 2 skipped)   8 accounts u32
//                      12 storage slots u32   16 accounts, 40 bytes each   then slots, 72 bytes
import { isIntact } from '../../base/rings/checkpoints.ts'
import { dataByte, openViews, type RingViews } from '../../base/rings/layout.ts'
import { type AnalysisMemory, formatState, topBytes, topEntries } from './memory.ts'
import { analysed, openProgram, type Program } from './program.ts'
import { SyncTable, type Turn, ticketModulus } from './sync-table.ts'

/** Elements of each list of TopAccesses. */
const topLimit = 10
const accountEntryBytes = 40
/** Upper bound of the TopAccesses text: ten elements of at most 130 and ten of 210 bytes. */
const topTextMax = 4096
/** Trackers reset when block timestamps enter a new window. */
const windowSecs = 300

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
      /** The transactions' records, as transaction-text.ts reads them. */
      readonly transactions: Uint8Array
      // All three are views of one shared buffer of their own: transferred without a copy.
    }
  | { readonly outcome: 'lost'; readonly reason: LossReason }
  /** An earlier block must be retried first; submit this job again after it. */
  | { readonly outcome: 'retry' }

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
    if (!this.#isPast(job.ticket)) {
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

  /** Whether an earlier attempt passed the turn on and died afterwards. */
  #isPast(ticket: number): boolean {
    const ahead = (this.#syncTable.turn().ticket - ticket + ticketModulus) % ticketModulus
    return ahead !== 0 && ahead < topEntries
  }

  #feed(turn: Turn, job: BlockJob): void {
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
