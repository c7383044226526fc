// Constructs the nodes and the chains that the products read: devnode, sets of nodes, their geyser
// streams, the execution pipeline.
import { randomBytes } from 'node:crypto'
import { statfsSync } from 'node:fs'
import { join } from 'node:path'
import type { Fault } from '../../base/errors.ts'
import type { Store } from '../../customers/subscriptions/store.ts'
import { DevnodeProcess } from '../../devnode/process.ts'
import { startExecution } from '../../streams/flows/execution.ts'
import type { FrameLog } from '../../streams/flows/execution-projector.ts'
import { declareStreamLogMeters } from '../../streams/segments/meters.ts'
import {
  answersFromStream,
  defaultSet,
  singleNodeSet,
  type UpstreamsSection,
} from '../../upstream/config.ts'
import { declareGeyserMeters } from '../../upstream/geyser/meters.ts'
import { declareUpstreamMeters, Upstreams } from '../../upstream/node-pool/upstreams.ts'
import { type Config, needsDevnode } from '../config/config.ts'
import type { Recorder } from '../record/recorder.ts'
import type { Context } from './context.ts'
import { SetChains } from './set-chains.ts'

/**
 * Slots that the devnode replays at the start: it ran on while this process started, and the index
 * continues at its last slot. Well below `replaySlots`: none is evicted before it is sent.
 */
const devnodeWarmSlots = 100
const secretBytes = 32

/** The name of the set that serves a subscription; no other set ever does. */
export function setOf({ upstream }: { readonly upstream: string | null }): string {
  return upstream ?? defaultSet
}

export function runExecution(context: Context, recorder: Recorder, events: FrameLog) {
  const { config, clock, log, meters, playing } = context
  const onDown = downOf(context, 'execution source')
  const tap = recorder.taps.events
  return startExecution(config.metrics, { ...playing, events, tap, clock, log, meters, onDown })
}

/**
 * The embedded chain: a node on free ports of loopback, in a process of its own. Every process of
 * this machine reaches those ports, so each start has a secret.
 */
export function runDevnode(context: Context): Promise<DevnodeProcess> {
  const { config, data, clock, log, meters, version } = context
  return DevnodeProcess.start(
    {
      ledger: join(data, 'chain'),
      files: null,
      isReset: context.isFresh,
      genesis: null,
      warpSlot: null,
      host: '127.0.0.1',
      rpcPort: 0,
      wsPort: 0,
      grpcPort: 0,
      // Recognizable, so that a search finds it where it must not be.
      secret: `devnode-${randomBytes(secretBytes).toString('base64url')}`,
      shreds: null,
      chain: config.chain,
      version,
    },
    { clock, log: log.area('chain'), meters, onDown: downOf(context, 'devnode') },
  )
}

export async function startUpstreams(
  { config, clock, log, meters }: Context,
  devnode: DevnodeProcess | null,
): Promise<Upstreams> {
  const upstreams = new Upstreams(setsOf(config.upstreams, devnode), { clock, log })
  await upstreams.start()
  declareUpstreamMeters(meters, upstreams)
  return upstreams
}

/** The configured sets; the devnode is a node like any other, alone in the set `default`. */
function setsOf(configured: UpstreamsSection, devnode: DevnodeProcess | null): UpstreamsSection {
  if (devnode === null) return configured
  const { rpc, ws, grpc } = devnode.addresses
  const node = {
    rpc: `http://${rpc.host}:${rpc.port}`,
    ws: `ws://${ws.host}:${ws.port}`,
    grpc: `http://${grpc.host}:${grpc.port}`,
    xToken: devnode.xToken,
  }
  return { ...configured, [defaultSet]: singleNodeSet(node) }
}

/** Opens the streams of the sets that have readers. */
export function openChains(
  context: Context,
  read: { readonly registry: Store; readonly upstreams: Upstreams; readonly recorder: Recorder },
): SetChains {
  const { config, clock, log, meters } = context
  const { registry, upstreams, recorder } = read
  const warmSlots = needsDevnode(config) ? { [defaultSet]: devnodeWarmSlots } : {}
  const onDown = downOf(context, 'geyser stream')
  const streamLog = streamLogOf(config)
  const deps = { warmSlots, streamLog, recorder, clock, log, onDown }
  const chains = new SetChains(upstreams, deps)
  declareGeyserMeters(meters, () => chains.readings())
  declareStreamLogMeters(meters, () => chains.logReadings())
  const { rpc, websocket, grpc, tpu, indexer } = config
  const isRead = [websocket, grpc, tpu, indexer].some(({ enabled }) => enabled)
  const active = registry.list().filter(({ state }) => state === 'active')
  for (const name of new Set([defaultSet, ...active.map(setOf)])) {
    const section = upstreams.set(name)?.section
    const answers = section !== undefined && answersFromStream(section)
    if (isRead || (rpc.enabled && answers)) chains.of(name)
  }
  return chains
}

const keptBytesMax = 20 * 1024 ** 3
const freeDiskPart = 1 / 10

/** Where the streams of sets are kept; null where they are not. */
function streamLogOf({ data, streams }: Config) {
  const { keep, bytes, compress } = streams
  if (keep === 0) return null
  const folder = join(data, 'streams')
  const bytesMax = bytes > 0 ? bytes : Math.min(keptBytesMax, freeBytes(data) * freeDiskPart)
  return { folder, bounds: { keepMs: keep, bytesMax, compress } }
}

function freeBytes(folder: string): number {
  const { bavail, bsize } = statfsSync(folder)
  return bavail * bsize
}

/** Ends the process when a vital component died too often to be restarted. */
export function downOf({ log, exit }: Context, name: string): (fault: Fault) => void {
  return (fault) => {
    log.error(`${name} is down for good`, { reason: fault.message })
    exit(1)
  }
}
