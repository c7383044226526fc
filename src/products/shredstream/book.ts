// The worker's own view of its targets: who is served, challenged or probed, and who answered.
// Thread: shred worker. Follows the shared table; reports to the main thread by messages.
import type { IpAddress } from '../../base/cidr.ts'
import type { Board } from './board.ts'
import { challengeOf, type Target, type TargetTable } from './targets.ts'

/**
 * What the worker posts: a challenge came back; a served port is closed; a probe of a paused one
 * met no error. `generation` names the use of the row that is meant.
 */
export interface WorkerNews {
  readonly kind: 'echo' | 'refused' | 'alive'
  readonly row: number
  readonly generation: number
}

/** Port-unreachable errors that make a port a closed one: this many, over this time at least. */
const refusalsMin = 4
const refusalsSpanMs = 1000
/** Errors are counted together for this long. */
const refusalsWindowMs = 10_000
/** A paused target is sent one shred in this time; no error within it means that it is alive. */
const probeMs = 1000

export class TargetBook {
  readonly #table: TargetTable
  readonly #board: Board
  readonly #post: (news: WorkerNews) => void
  /** Challenges sent so far, by row and generation. */
  readonly #sent = new Map<string, number>()
  /** Errors since the last report, by row. */
  readonly #fresh = new Map<number, number>()
  /** Errors of the window under way, by row. */
  readonly #refusals = new Map<number, { count: number; readonly sinceMs: number }>()
  /** Probes under way, by row. */
  readonly #probes = new Map<number, { readonly sentMs: number; isRefused: boolean }>()
  /** Failed sends that the next count of a row leaves out. */
  readonly #unsent = new Map<number, number>()
  #version = -1
  serving: readonly Target[] = []
  challenged: readonly Target[] = []
  probing: readonly Target[] = []

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
    this.probing = targets.filter(({ kind }) => kind === 'probe')
    const living = new Set(this.challenged.map(keyOf))
    for (const key of this.#sent.keys()) if (!living.has(key)) this.#sent.delete(key)
    forgetOthers(this.#unsent, this.serving)
    forgetOthers(this.#refusals, this.serving)
    forgetOthers(this.#probes, this.probing)
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

  /** Paused targets that are due a probe; they count as probed. */
  dueProbes(nowMs: number): Target[] {
    const due = this.probing.filter(({ row }) => !this.#probes.has(row))
    for (const { row } of due) this.#probes.set(row, { sentMs: nowMs, isRefused: false })
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

  /** The machine of a target reported its port as unreachable. */
  refused(row: number): void {
    this.#board.targets.add(row, 'refused', 1)
    this.#fresh.set(row, (this.#fresh.get(row) ?? 0) + 1)
    const probe = this.#probes.get(row)
    if (probe !== undefined) probe.isRefused = true
  }

  failed(row: number, errno: number, shreds: number): void {
    this.#board.targets.set(row, 'lastErrno', errno)
    this.#board.targets.add(row, 'droppedError', shreds)
    this.#board.totals.add(0, 'error', shreds)
    this.#unsent.set(row, (this.#unsent.get(row) ?? 0) + shreds)
  }

  /** Reports served targets whose port is closed, and paused ones whose port is open. */
  report(nowMs: number): void {
    if (this.#fresh.size > 0) {
      for (const target of this.serving) this.#countRefusals(target, nowMs)
      this.#fresh.clear()
    }
    for (const { row, generation } of this.probing) {
      const probe = this.#probes.get(row)
      if (probe === undefined || nowMs - probe.sentMs < probeMs) continue
      this.#probes.delete(row)
      if (!probe.isRefused) this.#post({ kind: 'alive', row, generation })
    }
  }

  #countRefusals({ row, generation }: Target, nowMs: number): void {
    const fresh = this.#fresh.get(row)
    if (fresh === undefined) return
    let known = this.#refusals.get(row)
    if (known === undefined || nowMs - known.sinceMs > refusalsWindowMs)
      known = { count: 0, sinceMs: nowMs }
    known.count += fresh
    this.#refusals.set(row, known)
    if (known.count < refusalsMin || nowMs - known.sinceMs < refusalsSpanMs) return
    this.#refusals.delete(row)
    this.#post({ kind: 'refused', row, generation })
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

function isSameAddress(
  a: Pick<IpAddress, 'family' | 'words'>,
  b: Pick<IpAddress, 'family' | 'words'>,
): boolean {
  return a.family === b.family && a.words.every((word, place) => word === b.words[place])
}

function forgetOthers(byRow: Map<number, unknown>, targets: readonly Target[]): void {
  const rows = new Set(targets.map(({ row }) => row))
  for (const row of byRow.keys()) if (!rows.has(row)) byRow.delete(row)
}

function keyOf({ row, generation }: Target): string {
  return `${row}/${generation}`
}
