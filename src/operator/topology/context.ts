// What every component of the topology is given besides the components that it reads.
import type { Clock } from '../../base/clock.ts'
import type { Readiness } from '../../base/readiness.ts'
import type { Log } from '../../base/telemetry/log.ts'
import type { Meters } from '../../base/telemetry/meters.ts'
import type { PlayProgress } from '../../streams/flows/execution.ts'
import type { Config } from '../config/config.ts'

export interface TopologyDeps {
  readonly clock: Clock
  readonly log: Log
  readonly version: string
  /** Drops the state of the embedded chain. */
  readonly isFresh: boolean
  /** True of a gateway that a hub has started: what operates the hub operates it, too. */
  readonly isOfHub?: boolean
  /** Ends the process with this code; called when a vital component is down for good. */
  exit(code: number): void
  /** Called while a recording is played, and at its end. */
  readonly playing?: { onProgress(progress: PlayProgress): void; onEnd?(): void }
}

export interface Context extends TopologyDeps {
  /** Of this process. */
  readonly config: Config
  /** As the operator wrote it; a hub derives its own and its gateways' from it. */
  readonly given: Config
  /** Absolute path of the data folder. */
  readonly data: string
  readonly meters: Meters
  /** Figures per customer: for the operator alone. */
  readonly customerMeters: Meters
  readonly readiness: Readiness
}
