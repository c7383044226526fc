// Detects hung analysis workers: batches that must be aborted because they will never return.
// Reads the sync table, where each worker publishes the ticket it works on.
//
//   ticket <= turn   it waits for no other block: the timeout is hangMs
//   ticket >  turn   it waits for its turn, for as long as the block before it takes
//   no ticket        its worker is starting: the timeout is startMs
//
// Time is counted in looks (polls): an event-loop stall delays them and must not count against
// workers.
import { isTurnOver, type SyncTable } from '../analysis/sync-table.ts'

export const lookMs = 250
/** A block is analysed in milliseconds; one of 15,000 transactions in a tenth of this. */
const hangMs = 2000
const startMs = 10_000

export class HangWatch<Batch extends { readonly tickets: readonly number[] }> {
  readonly #syncTable: SyncTable
  /** For how many looks a batch has had the same ticket, or none. */
  readonly #seen = new Map<Batch, { ticket: number | null; looks: number }>()

  constructor(syncTable: SyncTable) {
    this.#syncTable = syncTable
  }

  /** Returns the running batches whose worker hangs, each once. */
  look(running: Iterable<Batch>): Batch[] {
    const shown = this.#syncTable.working()
    const turn = this.#syncTable.turn().ticket
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
