// Constructs the nodes and the chains that the products read: devnode, sets of nodes, their geyser
// streams, the execution pipeline.
import { hash, randomBytes } from 'node:crypto'
import { readFileSync, renameSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Fault, messageOf } from '../../base/errors.ts'
import type { Log } from '../../base/telemetry/log.ts'
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
import type { UpstreamNode } from '../../upstream/node-pool/upstream-node.ts'
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

// Kept in <data>/drained.json, so that a restart amid the work on a node does not bring it back. An
// entry is that of an address: after a change of the configuration no node elsewhere has it.
// Gateways of a hub read the hub's file, when they start and when it changed; the hub writes it.

export interface DrainRequest {
  /** Such as default/2. */
  readonly node: string
  readonly isDrained: boolean
  readonly who: string
  readonly reason: string
}

/** The problem, when nothing was changed. */
export type DrainAnswer =
  | { readonly problem: string }
  | { readonly node: string; readonly state: string; readonly waiting: number }

export class DrainedNodes {
  readonly #path: string
  readonly #log: Log
  readonly #upstreams: Upstreams
  /** Who drained it and why, by the digest of its address. */
  #entries = new Map<string, string>()

  constructor(data: string, upstreams: Upstreams, log: Log) {
    this.#path = join(data, 'drained.json')
    this.#upstreams = upstreams
    this.#log = log.area('upstream')
    this.refresh()
  }

  /** Applies what the file says. */
  refresh(): void {
    this.#entries = this.#read()
    for (const node of this.#upstreams.sets().flatMap(({ nodes }) => nodes))
      node.setDrained(this.#entries.get(this.#keyOf(node)) ?? null)
  }

  change({ node: name, isDrained, who, reason }: DrainRequest): DrainAnswer {
    const node = this.#upstreams.node(name)
    if (node === null) return { problem: `no node ${name}: npx --no -- sluice status shows them` }
    if (isDrained && !this.#canSpare(node))
      return { problem: `no other node of its set can take over from ${name}: nothing was changed` }
    const by = reason === '' ? `by ${who}` : `by ${who}: ${reason}`
    const entries = new Map(this.#entries)
    if (isDrained) entries.set(this.#keyOf(node), by)
    else entries.delete(this.#keyOf(node))
    this.#write(entries)
    node.setDrained(isDrained ? by : null)
    this.#log.warn(isDrained ? 'node drained' : 'node resumed', { node: name, who, reason })
    return { node: name, state: node.state, waiting: node.waiting }
  }

  /** Whether calls and the geyser stream can go to another node. */
  #canSpare(node: UpstreamNode): boolean {
    const set = this.#upstreams.set(node.set)!
    const hasStream = set.nodes.some(
      (other) => other !== node && other.has('grpc') && other.state === 'up',
    )
    return (!node.has('rpc') || set.hasOther(node)) && (set.followed !== node || hasStream)
  }

  #read(): Map<string, string> {
    try {
      return new Map(Object.entries(JSON.parse(readFileSync(this.#path, 'utf8'))))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return new Map()
      this.#log.warn('drained nodes could not be read', { reason: messageOf(error) })
      return this.#entries
    }
  }

  /** A change that could not be written is none: the next one must not write it. */
  #write(entries: Map<string, string>): void {
    const fresh = `${this.#path}.${process.pid}`
    const text = `${JSON.stringify(Object.fromEntries(entries))}\n`
    writeFileSync(fresh, text, { mode: 0o600, flush: true })
    renameSync(fresh, this.#path)
    this.#entries = entries
  }

  /** Gateways of a hub know no address beside `rpc`: nodes that share it differ by their order. */
  #keyOf(node: UpstreamNode): string {
    const address = ({ addresses: { rpc, grpc } }: UpstreamNode) => rpc || grpc
    const { nodes } = this.#upstreams.set(node.set)!
    const same = nodes.filter((other) => address(other) === address(node))
    // Addresses may contain keys of a provider.
    return hash('sha256', `${node.set} ${address(node)} ${same.indexOf(node)}`, 'hex')
  }
}
