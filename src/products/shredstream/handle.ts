// Runs the shred worker: receives shreds, deduplicates them, sends each to every destination.
// Thread: shred worker. State that must outlive the worker is in shared memory made by server.ts.
import { type TapMemory, TapWriter } from '../../base/rings/tap.ts'
import { loadLibc } from '../../base/transport/udp-batch.ts'
import { LeaderSignatures } from '../../chain/solana/shred-signature.ts'
import { Recovery, ShredAdmission, Sources } from './admit.ts'
import { BatchLoop } from './batch-loop.ts'
import { pinThread } from './core.ts'
import { DgramLoop } from './dgram-loop.ts'
import { SharedStats } from './shared-stats.ts'
import { type ShredComponents, type WorkerSettings, wallClock } from './shred-components.ts'
import { TargetTracker, type WorkerEvent } from './target-tracker.ts'
import { TargetTable } from './targets.ts'
import { warmUp } from './warm-up.ts'
import { SlotWindow } from './window.ts'

export interface ShredWorkerData {
  readonly control: SharedArrayBuffer
  readonly stats: SharedArrayBuffer
  readonly targets: SharedArrayBuffer
  readonly window: SharedArrayBuffer
  /** Null where nothing can be recorded. */
  readonly tap?: TapMemory | null
  readonly settings: WorkerSettings
}

export type WorkerMessage = WorkerEvent | { readonly kind: 'warning'; readonly text: string }

/** Runs until `isStopped` returns true; `ready` is called once the sockets are open. */
export async function runShreds(
  data: ShredWorkerData,
  link: { ready(): void; post(message: WorkerMessage): void; isStopped(): boolean },
): Promise<void> {
  const { settings } = data
  const stats = new SharedStats(data.stats)
  const recovery = settings.recover ? new Recovery(stats) : null
  const signatures = settings.leaders === null ? null : new LeaderSignatures(settings.leaders)
  const window = new SlotWindow(data.window, stats)
  const components: ShredComponents = {
    stats,
    tracker: new TargetTracker(new TargetTable(data.targets), stats, link.post),
    admission: new ShredAdmission(stats, window, {
      version: settings.version,
      signatures,
      recovery,
      tap: data.tap ? new TapWriter(data.tap) : null,
    }),
    sources: new Sources(settings.sources),
    nowMs: wallClock(),
    warn: (text) => link.post({ kind: 'warning', text }),
  }
  const libc = settings.io === 'dgram' ? null : await loadLibc()
  if (libc !== null) {
    // Not in a restarted worker: shreds wait at the sockets of the previous one.
    if (settings.warmsUp && stats.sockets.get(0, 'ingest') === 0) warmUp(libc, settings)
    if (settings.core !== null) pinThread(libc, settings.core)
    const loop = new BatchLoop(libc, components, settings)
    link.ready()
    return loop.run(link.isStopped)
  }
  const loop = new DgramLoop(components, settings)
  await loop.open()
  link.ready()
  await loop.run(link.isStopped)
}
