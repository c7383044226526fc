// Tracks the worker's targets: which are served, challenged or probed, and which answered.
// Thread: shred worker. Follows the shared target table; posts events to the main thread.
import type { IpAddress } from '../../base/cidr.ts'
import type { SharedStats } from './shared-stats.ts'
import { challengeOf, type Target, type TargetTable } from './targets.ts'

/**
 * What the worker posts: `echo`: a challenge was echoed; `refused`: a served port is closed;
 * `alive`: a probe of a paused target met no error. `generation` identifies the use of the row.
 */
export interface WorkerEvent {
  readonly kind: 'echo' | 'refused' | 'alive'
  readonly row: number
  readonly generation: number
}

/** A port counts as closed after this many port-unreachable errors over at least this time. */
const refusalsMin = 4
const refusalsSpanMs = 1000
/** Length of the window in which errors are counted together. */
const refusalsWindowMs = 10_000
/** Interval of probes to a paused target; no error within it means that the target is alive. */
const probeMs = 1000

export class TargetTracker {
  readonly #table: TargetTable
  readonly #stats: SharedStats
  readonly #post: (event: WorkerEvent) => void
  /** Challenges sent so far, by row and generation. */
  readonly #sent = new Map<string, number>()
  /** Errors since the last report, by row. */
  readonly #fresh = new Map<number, number>()
  /** Errors of the current window, by row. */
  readonly #refusals = new Map<number, { count: number; readonly sinceMs: number }>()
  /** Probes in flight, by row. */
  readonly #probes = new Map<number, { readonly sentMs: number; isRefused: boolean }>()
  /** Failed sends that the next `countSent` of a row subtracts. */
  readonly #unsent = new Map<number, number>()
  #version = -1
  serving: readonly Target[] = []
  challenged: readonly Target[] = []
  probing: readonly Target[] = []

  constructor(table: TargetTable, stats: SharedStats, post: (event: WorkerEvent) => void) {
    this.#table = table
    this.#stats = stats
    this.#post = post
  }

  /** False after the deadline of the leases: another gateway may be sending. */
  get maySend(): boolean {
    return !this.#table.isOver
  }

  get isStale(): boolean {
    return this.#table.version !== this.#version
  }

  /** Reads the table; false when nothing changed or the main thread is writing it. */
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
    deleteOthers(this.#unsent, this.serving)
    deleteOthers(this.#refusals, this.serving)
    deleteOthers(this.#probes, this.probing)
    return true
  }

  /** Publishes the version of the table that was last read as applied. */
  markApplied(): void {
    this.#stats.sockets.set(0, 'tableVersion', this.#version)
  }

  /** Returns the targets that are due another challenge, and counts it as sent. */
  dueChallenges(): Target[] {
    if (!this.maySend) return []
    const due = this.challenged.filter(
      (target) => (this.#sent.get(keyOf(target)) ?? 0) < target.challenges,
    )
    for (const target of due) this.#sent.set(keyOf(target), target.challenges)
    return due
  }

  /** Returns the paused targets that are due a probe, and counts it as sent. */
  dueProbes(nowMs: number): Target[] {
    if (!this.maySend) return []
    const due = this.probing.filter(({ row }) => !this.#probes.has(row))
    for (const { row } of due) this.#probes.set(row, { sentMs: nowMs, isRefused: false })
    return due
  }

  /** Handles a datagram at the source port: only a challenge echoed by its own address counts. */
  receiveEcho(from: Pick<IpAddress, 'family' | 'words'>, port: number, payload: Uint8Array): void {
    for (const target of this.challenged) {
      if (target.port !== port || !isSameAddress(target.address, from)) continue
      if (challengeOf(target).compare(payload) !== 0) continue
      this.#post({ kind: 'echo', row: target.row, generation: target.generation })
    }
  }

  /** Counts a port-unreachable error that the target's machine reported. */
  refused(row: number): void {
    this.#stats.targets.add(row, 'refused', 1)
    this.#fresh.set(row, (this.#fresh.get(row) ?? 0) + 1)
    const probe = this.#probes.get(row)
    if (probe !== undefined) probe.isRefused = true
  }

  failed(row: number, errno: number, shreds: number): void {
    this.#stats.targets.set(row, 'lastErrno', errno)
    this.#stats.targets.add(row, 'droppedError', shreds)
    this.#stats.totals.add(0, 'error', shreds)
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

  /** Counts what was sent to each of these rows, less failed sends. Counts never decrease. */
  countSent(rows: readonly number[], packets: number, bytes: number, nowMs: number): void {
    const { targets, totals } = this.#stats
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
    for (const row of rows) this.#stats.targets.add(row, 'droppedCap', packets)
    this.#stats.totals.add(0, 'cap', packets * rows.length)
  }
}

function isSameAddress(
  a: Pick<IpAddress, 'family' | 'words'>,
  b: Pick<IpAddress, 'family' | 'words'>,
): boolean {
  return a.family === b.family && a.words.every((word, index) => word === b.words[index])
}

function deleteOthers(byRow: Map<number, unknown>, targets: readonly Target[]): void {
  const rows = new Set(targets.map(({ row }) => row))
  for (const row of byRow.keys()) if (!rows.has(row)) byRow.delete(row)
}

function keyOf({ row, generation }: Target): string {
  return `${row}/${generation}`
}

// Rate-limits each target in packets and bits per second (token buckets). Thread: shred worker.
// A target over its cap is left out of whole batches until its bucket has refilled a little, so
// that the sender's tables change seldom and a flood costs other targets no time.

export interface CapOptions {
  readonly packetsPerSecond: number
  readonly bytesPerSecond: number
}

/** Share of a second's budget that a muted target must have before it is served again. */
const resumeShare = 0.05

export class Caps {
  readonly #options: CapOptions
  readonly #packets: Float64Array
  readonly #bytes: Float64Array
  readonly #mutes: Uint8Array
  #lastMs = 0
  mutedCount = 0

  constructor(options: CapOptions, rows: number) {
    this.#options = options
    this.#packets = new Float64Array(rows).fill(options.packetsPerSecond)
    this.#bytes = new Float64Array(rows).fill(options.bytesPerSecond)
    this.#mutes = new Uint8Array(rows)
  }

  isMuted(row: number): boolean {
    return this.#mutes[row] === 1
  }

  /** Starts a new use of a row, with a full second's budget. */
  reset(row: number): void {
    this.#packets[row] = this.#options.packetsPerSecond
    this.#bytes[row] = this.#options.bytesPerSecond
    if (this.#mutes[row] === 1) this.mutedCount -= 1
    this.#mutes[row] = 0
  }

  /** Charges a batch to all rows; true when the set of muted rows has changed. */
  charge(rows: readonly number[], packets: number, bytes: number, nowMs: number): boolean {
    const { packetsPerSecond, bytesPerSecond } = this.#options
    const seconds = this.#lastMs === 0 ? 0 : Math.max(0, nowMs - this.#lastMs) / 1000
    this.#lastMs = nowMs
    let hasChanged = false
    for (const row of rows) {
      const p = Math.min(packetsPerSecond, this.#packets[row]! + seconds * packetsPerSecond)
      const b = Math.min(bytesPerSecond, this.#bytes[row]! + seconds * bytesPerSecond)
      const isMuted = this.#mutes[row] === 1
      const share = isMuted ? resumeShare : 0
      const isSent =
        p >= Math.max(packets, share * packetsPerSecond) &&
        b >= Math.max(bytes, share * bytesPerSecond)
      this.#packets[row] = isSent ? p - packets : p
      this.#bytes[row] = isSent ? b - bytes : b
      if (isSent !== isMuted) continue
      this.#mutes[row] = isSent ? 0 : 1
      this.mutedCount += isSent ? -1 : 1
      hasChanged = true
    }
    return hasChanged
  }
}
