// The two roads that feed several doors, and the chain behind the second. Thread: main.
// Called by topology.ts, after the ground.
//
//   source thread ─► event ring 64 MiB ─► analysis pool ─► event log of 100,000 frames
//   chain process ─► ledger ─► hub that keeps 150 slots or 256 MiB;  verify pool
//   nodes of a set ─► geyser stream ─► slots ─► a hub of the same kind, per set
import { join } from 'node:path'
import { allCommitments } from '../base/commitment.ts'
import type { Components } from '../base/components.ts'
import type { Fault } from '../base/errors.ts'
import { guarded } from '../base/guard.ts'
import { type Config, needsEmbeddedChain } from '../config/config.ts'
import { solanaFeed } from '../devnode/feed.ts'
import { declareChainMeters } from '../devnode/meters.ts'
import { type RunningChain, startEmbeddedChain } from '../devnode/start.ts'
import { SolanaTee } from '../devnode/tee.ts'
import { startExecution } from '../flows/execution.ts'
import { Heads } from '../geyser/heads.ts'
import { openSolanaHub, type SolanaHub } from '../geyser/hub.ts'
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
  const execution = await parts.add('execution', () =>
    startExecution(config.metrics, { ...deps.playing, events, clock, log, meters, onDown }),
  )
  const upstream = await startUpstream(config, deps, parts, ground)
  const geyser = await parts.add('geyser', () => startGeyser(config, deps, ground, upstream))
  const chainLog = log.area('chain')
  const verifier = await parts.add('verify pool', () => new VerifyPool({ log: chainLog }))
  const solana = needsEmbeddedChain(config)
    ? await startChain(config, deps, parts, { ...ground, verifier })
    : null
  return { events, execution, upstream, geyser, verifier, solana }
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

export interface Solana extends Pick<RunningChain, 'chain' | 'pid' | 'seed'> {
  readonly hub: SolanaHub
  readonly heads: Heads
  /** Who else hears what the chain does. */
  readonly tee: SolanaTee
}

async function startChain(
  config: Config,
  deps: TopologyDeps,
  parts: Components,
  { data, meters, verifier }: Ground & { readonly verifier: VerifyPool },
): Promise<Solana> {
  const { clock, isFresh } = deps
  const log = deps.log.area('chain')
  const hub = openSolanaHub(hubBounds)
  const heads = new Heads(hub)
  const tee = new SolanaTee(solanaFeed(hub, clock))
  const { chain, pid, seed } = await parts.add('chain', () =>
    startEmbeddedChain(config.chain, {
      path: join(data, 'chain'),
      isFresh,
      sink: tee,
      verifier,
      meters: declareChainMeters(meters),
      clock,
      log,
      onDown(fault) {
        log.error('the chain is down for good', { reason: fault.message })
        deps.exit(1)
      },
    }),
  )
  return { chain, pid, seed, hub, heads, tee }
}

/** For `sluice status`. */
export function chainStatus(solana: Solana | null) {
  if (solana === null) return null
  const { chain, pid } = solana
  const [processed, confirmed, finalized] = allCommitments.map((one) => chain.slot(one))
  return { pid: pid(), healthy: chain.slotsBehind() === 0, processed, confirmed, finalized }
}
