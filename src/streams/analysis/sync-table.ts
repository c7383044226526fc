// Synchronizes the threads of the execution pipeline through words in shared memory.
//
//     0  secret of the hash, 64 bytes                        (main, once)
//   128  turn: ticket << 1 | current state                   (the worker whose turn it is)
//   256  round: incremented to call waiting workers back     (main)
//   384  scratch areas: ticket + 1 of the block in it, or 0  (workers; main when none runs)
//   512  last source event: seqno x 8, a shared position     (source thread)
//   640  when it was read: us x 8, a shared position         (source thread)
//
// Each has a cache line of its own, because each has another writer (no false sharing).
import { cacheLineBytes, loadPosition, storePosition } from '../../base/rings/layout.ts'

export const secretBytes = 64
const line = cacheLineBytes / 4
const turnAt = line
const roundAt = 2 * line
const scratchAt = 3 * line
const seqnoAt = 4 * line
const readAt = 5 * line
export const syncTableBytes = 6 * cacheLineBytes

/** Tickets are counted modulo this, so that a ticket and the current state fit a word. */
export const ticketModulus = 2 ** 29
/** Whether a ticket had its turn before `turn`; tickets in use are far closer than half of all. */
export function isTurnOver(ticket: number, turn: number): boolean {
  const ahead = (turn - ticket + ticketModulus) % ticketModulus
  return ahead !== 0 && ahead < ticketModulus / 2
}

/** Timeout of one wait: a waiting worker checks the round this often. */
const waitMs = 100

export interface Turn {
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
    const next = (ticket + 1) % ticketModulus
    // Release: a thread that sees the new turn sees the trackers as this thread left them.
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

  /** Calls every waiting worker back. */
  nextRound(): number {
    const round = Atomics.add(this.#words, roundAt, 1) + 1
    Atomics.notify(this.#words, turnAt)
    return round | 0
  }

  /** Acquires a free scratch area for the block of a ticket; -1 when all are in use. */
  acquireScratch(ticket: number): number {
    for (let area = 0; area < this.#workers; area++)
      // The compare-exchange decides between two workers that see the same area free.
      if (Atomics.compareExchange(this.#words, scratchAt + area, 0, ticket + 1) === 0) return area
    return -1
  }

  /** Tickets of the blocks that workers are analysing now. */
  working(): number[] {
    const areas = Array.from({ length: this.#workers }, (_, area) => scratchAt + area)
    return areas.map((at) => Atomics.load(this.#words, at) - 1).filter((ticket) => ticket >= 0)
  }

  releaseScratch(area: number): void {
    Atomics.store(this.#words, scratchAt + area, 0)
  }

  /** Frees the areas of workers that died. Only while no block is being analysed. */
  clearScratch(): void {
    for (let area = 0; area < this.#workers; area++) this.releaseScratch(area)
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
