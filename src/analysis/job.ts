// Analyses blocks: what the pool runs for each BlockEnd. Thread: analysis worker.
// Contention is computed in parallel with other blocks; the trackers are fed in ticket order, on a
// copy of their state that becomes the current one by a single store. So a worker may die at any
// point: the block is simply analysed again, and a block that was fed already finds its result in
// the place of its ticket.
//
//   place of a ticket   0 outcome u32 (0 none, 1 fed, 2 passed over)   8 accounts u32
//                      12 storage slots u32   16 accounts, 40 bytes each   then slots, 72 bytes

import { isIntact } from '../rings/checkpoints.ts'
import { dataByte, openViews, type RingViews } from '../rings/layout.ts'
import { Board, type Turn, ticketModulus } from './board.ts'
import { type AnalysisMemory, formatState, topBytes, topPlaces } from './memory.ts'
import { analysed, openProgram, type Program } from './program.ts'

/** Elements of each list of TopAccesses. */
const topLimit = 10
const accountEntryBytes = 40
/** More than the text of TopAccesses can take: ten elements of at most 130 and ten of 210 bytes. */
const topTextMax = 4096
/** Trackers start afresh when block timestamps cross a mark. Row "TopAccesses" in DESIGN.md. */
const markSecs = 300

export interface BlockJob {
  /** The block's place in the order in which the trackers are fed. */
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
      /** The transactions' records, as transactions.ts reads them. */
      readonly transactions: Uint8Array
      // All three lie in one shared buffer of their own: handed over without a copy.
    }
  | { readonly outcome: 'lost'; readonly reason: LossReason }
  /** An earlier block must be done again first; ask once more. */
  | { readonly outcome: 'retry' }

const fed = 1
const passedOver = 2

export class BlockAnalyst {
  readonly #at: AnalysisMemory
  readonly #board: Board
  readonly #program: Program
  readonly #ring: RingViews
  readonly #bytes: Uint8Array<SharedArrayBuffer>
  readonly #words: Uint32Array<SharedArrayBuffer>
  readonly #marks: Float64Array<SharedArrayBuffer>
  readonly #fence = new Int32Array(1)

  constructor(at: AnalysisMemory) {
    this.#at = at
    this.#board = new Board(at)
    this.#program = openProgram(at)
    this.#ring = openViews(at.eventRing)
    this.#bytes = new Uint8Array(at.memory.buffer)
    this.#words = new Uint32Array(at.memory.buffer)
    this.#marks = new Float64Array(at.memory.buffer)
  }

  /** One after the other; behind one that was called back all are. */
  analyseAll(jobs: readonly BlockJob[]): BlockResult[] {
    const results: BlockResult[] = []
    for (const job of jobs) {
      const last = results.at(-1)
      results.push(last?.outcome === 'retry' ? last : this.analyse(job))
    }
    return results
  }

  analyse(job: BlockJob): BlockResult {
    const area = this.#board.takeScratch(job.ticket)
    // Held by a worker that died; the main thread frees it before it asks again.
    if (area < 0) return { outcome: 'retry' }
    try {
      return this.#analyse(job, this.#at.scratch + area * this.#at.scratchBytes)
    } finally {
      this.#board.giveScratch(area)
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
      const turn = this.#board.awaitTurn(job.ticket, job.round)
      if (turn === null) return { outcome: 'retry' }
      if (loss !== null) this.#passOver(turn)
      else this.#feed(turn, job)
    }
    if (loss !== null) return { outcome: 'lost', reason: loss }
    const place = this.#placeOf(job.ticket)
    if (this.#words[place / 4] !== fed) return { outcome: 'lost', reason: 'overrun' }
    return this.#result(place)
  }

  #lossOf(code: number, from: number): LossReason | null {
    // Asked after reading: records that were overwritten meanwhile explain any damage.
    if (!isIntact(this.#ring, from, this.#fence)) return 'overrun'
    if (code === analysed.damaged) return 'malformed'
    return code === analysed.tooLarge ? 'too-large' : null
  }

  /** An earlier try got as far as passing the turn on, and died afterwards. */
  #isPast(ticket: number): boolean {
    const ahead = (this.#board.turn().ticket - ticket + ticketModulus) % ticketModulus
    return ahead !== 0 && ahead < topPlaces
  }

  #feed(turn: Turn, job: BlockJob): void {
    const next = turn.state === 0 ? 1 : 0
    const { states, stateBytes, accountTracker, storageTracker } = this.#at
    const from = states + turn.state * stateBytes
    const to = states + next * stateBytes
    this.#bytes.copyWithin(to, from, from + stateBytes)
    const mark = Math.floor(job.timestampSecs / markSecs)
    if (this.#marks[to / 8] !== mark) {
      formatState(this.#at, this.#program, to)
      this.#marks[to / 8] = mark
    }
    this.#program.feed(to + accountTracker, to + storageTracker)
    // Keys were copied from the ring once more: only an intact ring makes the copy current.
    if (!isIntact(this.#ring, job.from, this.#fence)) {
      this.#passOver(turn)
      return
    }
    const place = this.#placeOf(turn.ticket)
    const accounts = this.#program.writeTop(to + accountTracker, topLimit, place + 16)
    const storageAt = place + 16 + accounts * accountEntryBytes
    const storages = this.#program.writeTop(to + storageTracker, topLimit, storageAt)
    this.#words[place / 4 + 2] = accounts
    this.#words[place / 4 + 3] = storages
    this.#words[place / 4] = fed
    this.#board.pass(turn.ticket, next)
  }

  #passOver(turn: Turn): void {
    this.#words[this.#placeOf(turn.ticket) / 4] = passedOver
    this.#board.pass(turn.ticket, turn.state)
  }

  #result(place: number): BlockResult {
    const { textAt, textBytes, headersAt, headersBytes } = this.#program
    const textEnd = textBytes.value
    const headersEnd = textEnd + headersBytes.value
    const all = new Uint8Array(new SharedArrayBuffer(headersEnd + topTextMax))
    all.set(this.#view(textAt.value, textBytes.value))
    all.set(this.#view(headersAt.value, headersBytes.value), textEnd)
    // The text of ContentionData is copied already; its room is free again.
    const topBytes = this.#encodeTop(place, textAt.value)
    all.set(this.#view(textAt.value, topBytes), headersEnd)
    return {
      outcome: 'done',
      contention: all.subarray(0, textEnd),
      top: all.subarray(headersEnd, headersEnd + topBytes),
      transactions: all.subarray(textEnd, headersEnd),
    }
  }

  #encodeTop(place: number, to: number): number {
    const accounts = this.#words[place / 4 + 2]!
    const storages = this.#words[place / 4 + 3]!
    const storageAt = place + 16 + accounts * accountEntryBytes
    return this.#program.encodeTop(to, place + 16, accounts, storageAt, storages)
  }

  #placeOf(ticket: number): number {
    return this.#at.tops + (ticket % topPlaces) * topBytes
  }

  #view(at: number, length: number): Uint8Array {
    return this.#bytes.subarray(at, at + length)
  }
}
