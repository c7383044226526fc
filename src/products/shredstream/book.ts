// The worker's own view of its targets: who is served, who is challenged, who has answered.
// Thread: shred worker. Follows the shared table; tells the main thread by messages.
import { formatAddress, type IpAddress } from '../../base/cidr.ts'
import type { Board } from './board.ts'
import { challengeOf, type Target, type TargetTable } from './targets.ts'

/** What the worker posts. `generation` names the use of the row that is meant. */
export type WorkerNews =
  | { readonly kind: 'echo'; readonly row: number; readonly generation: number }
  | { readonly kind: 'refused'; readonly row: number; readonly generation: number }

/** Port-unreachable answers before the main thread hears of them; one alone may be chance. */
const refusalsMin = 4
/** Answers further apart than this are not "in a row". */
const refusalsForgetMs = 10_000

export class TargetBook {
  readonly #table: TargetTable
  readonly #board: Board
  readonly #post: (news: WorkerNews) => void
  /** Challenges sent so far, by row and generation. */
  readonly #sent = new Map<string, number>()
  readonly #refusals = new Map<number, number>()
  /** Failed sends that the next count of a row leaves out. */
  readonly #unsent = new Map<number, number>()
  #refusalsSinceMs = 0
  #version = -1
  serving: readonly Target[] = []
  challenged: readonly Target[] = []

  constructor(table: TargetTable, board: Board, post: (news: WorkerNews) => void) {
    this.#table = table
    this.#board = board
    this.#post = post
  }

  get isStale(): boolean {
    return this.#table.version !== this.#version
  }

  /** Takes over the table; false when nothing changed or it is being written right now. */
  refresh(): boolean {
    if (!this.isStale) return false
    const version = this.#table.version
    const targets = this.#table.read()
    if (targets === null) return false
    this.#version = version
    this.serving = targets.filter(({ kind }) => kind === 'serve')
    this.challenged = targets.filter(({ kind }) => kind === 'challenge')
    const living = new Set(this.challenged.map(keyOf))
    for (const key of this.#sent.keys()) if (!living.has(key)) this.#sent.delete(key)
    const served = new Set(this.serving.map(({ row }) => row))
    for (const row of this.#unsent.keys()) if (!served.has(row)) this.#unsent.delete(row)
    return true
  }

  /** Shows that the table, as last read, is in force. */
  settle(): void {
    this.#board.sockets.set(0, 'tableVersion', this.#version)
  }

  /** Challenged targets that are owed another challenge; they count as sent. */
  dueChallenges(): Target[] {
    const due = this.challenged.filter(
      (target) => (this.#sent.get(keyOf(target)) ?? 0) < target.challenges,
    )
    for (const target of due) this.#sent.set(keyOf(target), target.challenges)
    return due
  }

  /** Something arrived at the sending port. Only a challenge sent back from its address counts. */
  heard(from: Pick<IpAddress, 'family' | 'words'>, port: number, payload: Uint8Array): void {
    for (const target of this.challenged) {
      if (target.port !== port || !isSameAddress(target.address, from)) continue
      if (challengeOf(target).compare(payload) !== 0) continue
      this.#post({ kind: 'echo', row: target.row, generation: target.generation })
    }
  }

  /** The machine of a target said that nobody listens there. */
  refused(row: number): void {
    this.#board.targets.add(row, 'refused', 1)
    this.#refusals.set(row, (this.#refusals.get(row) ?? 0) + 1)
  }

  failed(row: number, errno: number, shreds: number): void {
    this.#board.targets.set(row, 'lastErrno', errno)
    this.#board.targets.add(row, 'droppedError', shreds)
    this.#board.totals.add(0, 'error', shreds)
    this.#unsent.set(row, (this.#unsent.get(row) ?? 0) + shreds)
  }

  tellRefusals(nowMs: number): void {
    if (this.#refusals.size === 0) return
    for (const { row, generation } of this.serving) {
      if ((this.#refusals.get(row) ?? 0) < refusalsMin) continue
      this.#refusals.delete(row)
      this.#post({ kind: 'refused', row, generation })
    }
    if (nowMs - this.#refusalsSinceMs < refusalsForgetMs) return
    this.#refusalsSinceMs = nowMs
    this.#refusals.clear()
  }

  /** Counts what was sent to each of these rows, less what failed. No count ever falls. */
  countSent(rows: readonly number[], packets: number, bytes: number, nowMs: number): void {
    const { targets, totals } = this.#board
    for (const row of rows) {
      const unsent = Math.min(packets, this.#unsent.get(row) ?? 0)
      if (unsent > 0) this.#unsent.set(row, this.#unsent.get(row)! - unsent)
      const sent = packets - unsent
      const sentBytes = unsent === 0 ? bytes : Math.round((bytes * sent) / packets)
      targets.add(row, 'packets', sent)
      targets.add(row, 'bytes', sentBytes)
      if (sent > 0) targets.set(row, 'lastSentMs', nowMs)
      totals.add(0, 'sent', sent)
      totals.add(0, 'sentBytes', sentBytes)
    }
  }

  countCapped(rows: readonly number[], packets: number): void {
    for (const row of rows) this.#board.targets.add(row, 'droppedCap', packets)
    this.#board.totals.add(0, 'cap', packets * rows.length)
  }
}

export function isSameAddress(
  a: Pick<IpAddress, 'family' | 'words'>,
  b: Pick<IpAddress, 'family' | 'words'>,
): boolean {
  return a.family === b.family && formatAddress(a) === formatAddress(b)
}

function keyOf({ row, generation }: Target): string {
  return `${row}/${generation}`
}
