// What the shred worker runs: shreds in, each one once, out to every destination.
// Thread: shred worker. Started by workers/shreds.ts; everything that must outlive it is shared
// memory made by server.ts.
import type { Cidr } from '../../base/cidr.ts'
import { LeaderSignatures } from '../../solana/shred-signature.ts'
import { loadLibc } from '../../transport/udp-batch.ts'
import { Admission } from './admit.ts'
import { BatchLoop } from './batch-loop.ts'
import { Board } from './board.ts'
import { TargetBook, type WorkerNews } from './book.ts'
import type { CapOptions } from './caps.ts'
import { DgramLoop } from './dgram-loop.ts'
import { Recovery } from './recovery.ts'
import { Sources } from './sources.ts'
import { challengeOf, type Target, TargetTable } from './targets.ts'
import { SlotWindow } from './window.ts'

export interface WorkerSettings {
  readonly host: string
  readonly port: number
  /** Where shreds are sent from: an IPv4 address, an IPv6 address, or both; one port. */
  readonly sourceHosts: readonly string[]
  readonly sourcePort: number
  readonly sources: readonly Cidr[]
  readonly version: number
  readonly io: 'batch' | 'dgram'
  readonly idle: 'sleep' | 'yield' | 'spin'
  readonly segments: boolean
  /** Keys of those who may lead; null when signatures are not checked. */
  readonly leaders: readonly Uint8Array[] | null
  readonly recover: boolean
  readonly caps: CapOptions
  readonly bufferBytes: number
}

export interface ShredWorkerData {
  readonly control: SharedArrayBuffer
  readonly board: SharedArrayBuffer
  readonly targets: SharedArrayBuffer
  readonly window: SharedArrayBuffer
  readonly settings: WorkerSettings
}

/** What both loops work with. */
export interface ShredParts {
  readonly board: Board
  readonly book: TargetBook
  readonly admission: Admission
  readonly sources: Sources
  /** One clock for all lives of the worker: wall time that does not jump while it lives. */
  nowMs(): number
  challengeOf(target: Target): Uint8Array
  note(text: string): void
}

export type WorkerMessage = WorkerNews | { readonly kind: 'note'; readonly text: string }

/** Runs until the control word says stop; `ready` is called once the sockets are open. */
export async function runShreds(
  data: ShredWorkerData,
  link: { ready(): void; post(message: WorkerMessage): void; isStopped(): boolean },
): Promise<void> {
  const { settings } = data
  const originMs = performance.timeOrigin
  const board = new Board(data.board)
  const recovery = settings.recover ? new Recovery(board) : null
  const signatures = settings.leaders === null ? null : new LeaderSignatures(settings.leaders)
  const window = new SlotWindow(data.window, board)
  const parts: ShredParts = {
    board,
    book: new TargetBook(new TargetTable(data.targets), board, link.post),
    admission: new Admission(board, window, { version: settings.version, signatures, recovery }),
    sources: new Sources(settings.sources),
    nowMs: () => originMs + performance.now(),
    challengeOf,
    note: (text) => link.post({ kind: 'note', text }),
  }
  const libc = settings.io === 'batch' ? await loadLibc() : null
  if (libc !== null) {
    const loop = new BatchLoop(libc, parts, settings)
    link.ready()
    return loop.run(link.isStopped)
  }
  const loop = new DgramLoop(parts, settings)
  await loop.open()
  link.ready()
  await loop.run(link.isStopped)
}
