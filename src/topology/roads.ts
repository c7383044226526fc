// Starts the two pipelines that feed several products. Thread: main.
//
//   source thread ─► event ring 64 MiB ─► analysis pool ─► event log of 100,000 frames
//   nodes of a set ─► geyser stream ─► slots ─► a hub that keeps 150 slots or 256 MiB, per set
//   devnode (child process): the one node of the set `default` where chain.source is embedded
import { join } from 'node:path'
import type { Components } from '../base/components.ts'
import type { Fault } from '../base/errors.ts'
import { guarded } from '../base/guard.ts'
import { type Config, needsDevnode } from '../config/config.ts'
import { DevnodeProcess } from '../devnode/process.ts'
import { startExecution } from '../flows/execution.ts'
import { EventLog } from '../stream/log.ts'
import type { Store } from '../subscriptions/store.ts'
import { faultReport, type Log } from '../telemetry/log.ts'
import { VerifyPool } from '../threads/verify-pool.ts'
import { declareGeyserMeters } from '../upstream/geyser/meters.ts'
import { GeyserRoads } from './geyser.ts'
import type { Ground, TopologyDeps } from './ground.ts'
import { startUpstream, type Upstream } from './upstream.ts'

/** As yellowstone keeps by default. */
const hubBounds = { replaySlots: 150, replayBytesMax: 256 * 1024 * 1024 }

export async function startRoads(
  config: Config,
  deps: TopologyDeps,
  parts: Components,
  ground: Ground,
) {
  const { clock, log } = deps
  const { meters, store } = ground
  const events = new EventLog({ reserve: eventNumbers(store, log), clock })
  const onDown = (fault: Fault) => {
    log.error('the execution source is down for good', { reason: fault.message })
    deps.exit(1)
  }
  const [devnode, execution] = await Promise.all([
    needsDevnode(config)
      ? parts.add('devnode', () => startDevnode(config, deps, ground))
      : Promise.resolve(null),
    parts.add('execution', () =>
      startExecution(config.metrics, { ...deps.playing, events, clock, log, meters, onDown }),
    ),
  ])
  const upstream = await startUpstream(config, deps, parts, { ...ground, devnode })
  const geyser = await parts.add('geyser', () => startGeyser(config, deps, ground, upstream))
  const verifier = await parts.add('verify pool', () => new VerifyPool({ log: log.area('tpu') }))
  return { events, execution, upstream, geyser, verifier, devnode }
}
export type Roads = Awaited<ReturnType<typeof startRoads>>

/** Reserves event numbers; a full disk costs numbers later, never the process. */
function eventNumbers(store: Store, log: Log): (count: number) => number | null {
  const report = faultReport(log.area('metrics'), 'event numbers could not be reserved')
  return (count) => {
    let first: number | null = null
    guarded(() => {
      first = store.reserveSeq('events', count)
    }, report)()
    return first
  }
}

/** The streams of the sets that somebody reads. */
function startGeyser(
  config: Config,
  { clock, log }: TopologyDeps,
  { meters, store }: Ground,
  { nodes, setOf }: Upstream,
): GeyserRoads {
  const roads = new GeyserRoads(nodes, { bounds: hubBounds, clock, log })
  declareGeyserMeters(meters, () => roads.readings())
  const { websocket, grpc, tpu, indexer } = config
  if (![websocket, grpc, tpu, indexer].some(({ enabled }) => enabled)) return roads
  const subscriptions = store.list().filter(({ state }) => state === 'active')
  const names = new Set([setOf({ upstream: null }), ...subscriptions.map(setOf)])
  for (const name of names) if (name !== null) roads.of(name)
  return roads
}

/** The embedded chain: a node on free ports of loopback, in a process of its own. */
function startDevnode(
  { chain }: Config,
  deps: TopologyDeps,
  { data, meters }: Ground,
): Promise<DevnodeProcess> {
  const log = deps.log.area('chain')
  return DevnodeProcess.start(
    {
      ledger: join(data, 'chain'),
      isReset: deps.isFresh,
      host: '127.0.0.1',
      rpcPort: 0,
      wsPort: 0,
      grpcPort: 0,
      shreds: null,
      chain,
      version: deps.version,
    },
    {
      clock: deps.clock,
      log,
      meters,
      onDown(fault) {
        log.error('devnode is down for good', { reason: fault.message })
        deps.exit(1)
      },
    },
  )
}

/** For `sluice status`: the embedded chain; null when the nodes are configured ones. */
export function chainStatus(devnode: DevnodeProcess | null) {
  if (devnode === null) return null
  return { pid: devnode.pid, healthy: devnode.isUp, ...devnode.stats.slots }
}
