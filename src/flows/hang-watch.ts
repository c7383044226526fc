// Finds analysis workers that hang: which batch of jobs must be ended because its worker will never
// return. Thread: main. Looks at the board, where each worker shows the ticket it works on.
//
//   ticket <= turn   it waits for nobody, so it is done within hangMs or hangs
//   ticket >  turn   it waits for its turn, for as long as the one before it takes
//   none shown       its worker starts; one that never does is found after startMs
//
// Time is counted in looks: a stall of this thread delays them and must not count against workers.
import { type Board, isTurnOver } from '../analysis/board.ts'

export const lookMs = 250
/** A block is analysed in milliseconds; one of 15,000 transactions in a tenth of this. */
const hangMs = 2000
const startMs = 10_000

export class HangWatch<Batch extends { readonly tickets: readonly number[] }> {
  readonly #board: Board
  /** For how many looks a batch has shown the same ticket, or none. */
  readonly #seen = new Map<Batch, { ticket: number | null; looks: number }>()

  constructor(board: Board) {
    this.#board = board
  }

  /** Those of the running batches whose worker hangs; each is given once. */
  look(running: Iterable<Batch>): Batch[] {
    const shown = this.#board.working()
    const turn = this.#board.turn().ticket
    const hung: Batch[] = []
    const before = new Map(this.#seen)
    this.#seen.clear()
    for (const batch of running) {
      const ticket = batch.tickets.find((own) => shown.includes(own)) ?? null
      const isWaiting = ticket !== null && ticket !== turn && !isTurnOver(ticket, turn)
      const last = before.get(batch)
      const looks = !isWaiting && last?.ticket === ticket ? last.looks + 1 : 0
      if (looks * lookMs >= (ticket === null ? startMs : hangMs)) hung.push(batch)
      else this.#seen.set(batch, { ticket, looks })
    }
    return hung
  }
}
