// What the two loops of the shred worker get: settings and shared components. Thread: shred worker.
import type { Cidr } from '../../base/cidr.ts'
import type { ShredAdmission, Sources } from './admit.ts'
import type { SharedStats } from './shared-stats.ts'
import type { CapOptions, TargetTracker } from './target-tracker.ts'

export interface WorkerSettings {
  readonly host: string
  readonly port: number
  /** Source addresses of sent shreds: an IPv4 address, an IPv6 address, or both; one port. */
  readonly sourceHosts: readonly string[]
  readonly sourcePort: number
  readonly sources: readonly Cidr[]
  readonly version: number
  readonly io: 'batch' | 'poll' | 'dgram'
  /** Core of a worker that polls; null for others. */
  readonly core: number | null
  readonly idle: 'sleep' | 'yield' | 'spin'
  readonly segments: boolean
  /** Public keys of possible leaders; null when signatures are not verified. */
  readonly leaders: readonly Uint8Array[] | null
  readonly recover: boolean
  readonly caps: CapOptions
  readonly bufferBytes: number
  /** Whether the worker runs its code on made-up shreds until it is compiled. */
  readonly warmsUp: boolean
}

/** The components that both loops share. */
export interface ShredComponents {
  readonly stats: SharedStats
  readonly tracker: TargetTracker
  readonly admission: ShredAdmission
  readonly sources: Sources
  /** Wall time that is monotonic while the worker runs and comparable across its restarts. */
  nowMs(): number
  warn(text: string): void
}

/** Clock of the components. */
export function wallClock(): () => number {
  const originMs = performance.timeOrigin
  return () => originMs + performance.now()
}
