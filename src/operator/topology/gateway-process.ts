// The child's side of a hub's gateway: the whole service in a process of its own, configured and
// stopped over the pipe. Thread: main of its own process.
import { systemClock } from '../../base/clock.ts'
import { exitNow } from '../../base/exit.ts'
import type { Family } from '../../base/telemetry/exposition.ts'
import { openLog } from '../../base/telemetry/open-log.ts'
import type { Config } from '../config/config.ts'
import type { DrainAnswer, DrainRequest } from './drained-nodes.ts'
import { type Service, startTopology } from './service.ts'
import { surviveFaults } from './survive-faults.ts'

let service: Service | null = null

export async function startGateway(request: {
  readonly config: Config
  readonly version: string
}): Promise<void> {
  const { config, version } = request
  const log = openLog(config.logLevel, { gateway: config.cluster.gateway })
  service = await startTopology(config, {
    clock: systemClock,
    log,
    version,
    isFresh: false,
    isOfHub: true,
    // The hub starts another one.
    exit: exitNow,
  })
  service.announce()
  surviveFaults(log)
}

export async function gatewayMeters(): Promise<readonly Family[]> {
  return (await service?.meters.families()) ?? []
}

export async function customerMeters(): Promise<readonly Family[]> {
  return (await service?.customerMeters.families()) ?? []
}

export function drainNode(request: DrainRequest): DrainAnswer | null {
  return service?.drain(request) ?? null
}

export async function stopGateway(): Promise<void> {
  await service?.stop()
}
