// THE MAP: every thread, ring, store and door of the service, in start order. Thread: main.
// It only connects. Stopping walks it backwards; what fails to start takes the rest down again.
//
//   registry ─► directory ─► gate ─┐
//      │                           ├─► rpc 8899, websocket 8900, grpc 10010
//      ├─► quota ──────────────────┘          ▲
//      │   chain (child process) ─► ledger ─► hub;  verify pool
//      └─► seq blocks ─► event log ◄─ analysis pool ◄─ event ring ◄─ source thread
//                            └─► metrics 8443
import { randomBytes } from 'node:crypto'
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Directory } from './auth/directory.ts'
import { Gate } from './auth/gate.ts'
import { declareAuthMeters } from './auth/meters.ts'
import type { Clock } from './base/clock.ts'
import { Fault } from './base/errors.ts'
import { Parts } from './base/parts.ts'
import type { DoorAddress, Running } from './base/running.ts'
import { ChainSender } from './chain/chain-sender.ts'
import { declareChainMeters } from './chain/embedded/meters.ts'
import { embeddedRpcMethods } from './chain/embedded/rpc/methods.ts'
import { type RunningChain, startEmbeddedChain } from './chain/embedded/start.ts'
import { RpcSender } from './chain/upstream/rpc-sender.ts'
import { VerifyPool } from './chain/verify-pool.ts'
import { type Config, hasChainDoor, sourcesOf } from './config/config.ts'
import { knownOf } from './config/known.ts'
import { type PlayProgress, startExecution } from './flows/execution.ts'
import { openSolanaHub, type SolanaHub } from './flows/solana.ts'
import { solanaFeed } from './flows/solana-feed.ts'
import { SolanaTee } from './flows/solana-tee.ts'
import { declareGrpcMeters } from './products/grpc/meters.ts'
import { startGrpc } from './products/grpc/server.ts'
import { startMetrics } from './products/metrics/server.ts'
import { declareRpcMeters } from './products/rpc/meters.ts'
import { startRpc } from './products/rpc/server.ts'
import { type Shredstream, startShredstream } from './products/shredstream/server.ts'
import { declareTpuMeters } from './products/tpu/meters.ts'
import { type RunningTpu, startTpu } from './products/tpu/server.ts'
import { declareWebsocketMeters } from './products/websocket/meters.ts'
import { startWebsocket } from './products/websocket/server.ts'
import { declareQuotaMeters } from './quota/meters.ts'
import { Quota } from './quota/quota.ts'
import { EventLog } from './stream/log.ts'
import { lockData } from './subscriptions/lock.ts'
import { openStore, type Store } from './subscriptions/store.ts'
import type { Log } from './telemetry/log.ts'
import { Meters } from './telemetry/meters.ts'
import { startProcessMeters } from './telemetry/process-meters.ts'
import { Addresses } from './transport/address.ts'
import { type OperatorQuestion, startOperatorSocket } from './transport/operator-socket.ts'
import { CertificatePair } from './transport/tls.ts'

export interface TopologyDeps {
  readonly clock: Clock
  readonly log: Log
  readonly version: string
  /** Drops the state of the embedded chain. */
  readonly isFresh: boolean
  /** Asks the process to end with this code; called when a vital part is gone for good. */
  exit(code: number): void
  /** Told while a recording is played, and at its end. */
  readonly playing?: { onProgress(progress: PlayProgress): void; onEnd?(): void }
}

export interface Service {
  readonly doors: Readonly<Record<string, DoorAddress>>
  /** Where each product's data comes from, by its key. */
  readonly sources: ReadonlyMap<string, string>
  readonly store: Store
  readonly meters: Meters
  /** Brings a change of the registry into force now instead of at the next poll. */
  refresh(): void
  /** Takes over what may change while it runs: the tip accounts. */
  reconfigure(config: Config): void
  /** Writes <data>/doors.json: everything is open, and whoever waits for it may call. */
  announce(): Promise<unknown>
  stop(): Promise<void>
}

/** What a validator of this age calls itself; clients only compare it with what they support. */
const solanaVersion = { 'solana-core': '4.0.0', 'feature-set': 0 }

/** As yellowstone keeps by default. */
const hubBounds = { replaySlots: 150, replayBytesMax: 256 * 1024 * 1024 }

export async function startTopology(config: Config, deps: TopologyDeps): Promise<Service> {
  const { clock, log } = deps
  const parts = new Parts((name) => log.warn('a part did not stop in time', { part: name }))
  const ground = await startGround(config, deps, parts)
  const roads = await startRoads(config, deps, parts, ground)
  const doors = await openDoors(config, deps, parts, { ...ground, ...roads })
  const shreds = await openShreds(config, deps, parts, { ...ground, ...roads, doors })
  const tpu = await openTpu(config, deps, parts, { ...ground, ...roads, doors })
  const { store, directory, gate, meters, data } = ground
  const sources = sourcesOf(config)
  const startedMs = clock.monotonicMs()
  const status = () => ({
    version: deps.version,
    pid: process.pid,
    uptimeSecs: Math.floor((clock.monotonicMs() - startedMs) / 1000),
    doors,
    sources: Object.fromEntries(sources),
    chain: chainStatus(roads.solana),
    registry: { version: directory.version() },
    held: gate.held(),
  })
  const asked = {
    status,
    shreds: () => shreds?.report() ?? null,
    tips: ({ params }: OperatorQuestion) => tpu?.report(Number(params.count ?? 20)) ?? null,
    'tip-accounts': () => ({ tipAccounts: tpu?.tipAccounts() ?? [] }),
  }
  await parts.add('operator', () => startOperatorSocket(data, asked, log))
  return {
    doors,
    sources,
    store,
    meters,
    refresh: () => directory.refresh(),
    reconfigure: (changed) => tpu?.changeTipAccounts(changed.tpu.tipAccounts),
    announce: () => parts.add('doors.json', () => doorsFile(join(data, 'doors.json'), doors)),
    stop: () => parts.stop(),
  }
}

/** One server per folder, the registry, who may come in, what they may spend. */
async function startGround(config: Config, deps: TopologyDeps, parts: Parts) {
  const { clock, log } = deps
  const data = resolve(config.data)
  const meters = new Meters()
  await parts.add('lock', () => lock(data))
  const { store } = await parts.add('registry', () => opened(config, data, clock))
  const directory = await parts.add('directory', () => started(new Directory(store, deps)))
  const gate = new Gate(directory, { clock })
  const quota = await parts.add('quota', () =>
    started(new Quota({ plans: config.plans, ledger: store, clock, log })),
  )
  directory.watch((subscription) => quota.refresh(subscription))
  declareAuthMeters(meters, gate, directory)
  const quotaMeters = declareQuotaMeters(meters, quota)
  await parts.add('process meters', () => startProcessMeters(meters, deps))
  const { pair } = await parts.add('certificates', () => certificates(config, log))
  return { data, meters, store, directory, gate, quota, quotaMeters, tls: pair }
}
type Ground = Awaited<ReturnType<typeof startGround>>

/** What feeds several doors. */
async function startRoads(config: Config, deps: TopologyDeps, parts: Parts, ground: Ground) {
  const { clock, log } = deps
  const { meters, store } = ground
  // Source thread -> event ring 64 MiB -> analysis pool -> resume buffer of 100,000 frames.
  const events = new EventLog({ reserve: (count) => store.reserveSeq('events', count), clock })
  const onDown = (fault: Fault) => {
    log.error('the execution source is down for good', { reason: fault.message })
    deps.exit(1)
  }
  const execution = await parts.add('execution', () =>
    startExecution(config.metrics, { ...deps.playing, events, clock, log, meters, onDown }),
  )
  const solana = hasChainDoor(config) ? await startChain(config, deps, parts, ground) : null
  return { events, execution, solana }
}
type Roads = Awaited<ReturnType<typeof startRoads>>

interface Solana extends Pick<RunningChain, 'chain' | 'pid'> {
  readonly hub: SolanaHub
  /** Who else hears what the chain does. */
  readonly tee: SolanaTee
  readonly verifier: VerifyPool
}

/** Chain process -> ledger -> hub that keeps 150 slots or 256 MiB; signatures in a pool. */
async function startChain(
  config: Config,
  deps: TopologyDeps,
  parts: Parts,
  { data, meters }: Ground,
): Promise<Solana> {
  const { clock, isFresh } = deps
  const log = deps.log.area('chain')
  const hub = openSolanaHub(hubBounds)
  const tee = new SolanaTee(solanaFeed(hub, clock))
  const verifier = await parts.add('verify pool', () => new VerifyPool({ log }))
  const { chain, pid } = await parts.add('chain', () =>
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
  return { chain, pid, hub, tee, verifier }
}

function chainStatus(solana: Solana | null) {
  if (solana === null) return null
  const { chain, pid } = solana
  const [processed, confirmed, finalized] = ([0, 1, 2] as const).map((level) => chain.slot(level))
  return { pid: pid(), healthy: chain.slotsBehind() === 0, processed, confirmed, finalized }
}

/** The products, each behind its own door. Gives the addresses of those that opened. */
async function openDoors(
  config: Config,
  deps: TopologyDeps,
  parts: Parts,
  given: Ground & Roads,
): Promise<Record<string, DoorAddress>> {
  const { meters, events, execution, solana, tls } = given
  const { trustedProxies } = config
  const shared = { ...given, trustedProxies, clock: deps.clock, log: deps.log }
  const version = { ...solanaVersion, sluice: deps.version }
  const doors: Record<string, DoorAddress> = {}
  const open = async (name: string, isEnabled: boolean, start: () => Promise<Running>) => {
    if (!isEnabled) return
    const { address } = await parts.add(name, start)
    if (address !== null) doors[name] = address
  }
  await open('rpc', config.rpc.enabled, () =>
    startRpc(config.rpc, {
      ...shared,
      meters: declareRpcMeters(meters),
      facts: { version, slotsBehind: () => solana?.chain.slotsBehind() ?? null },
      methods: solana === null ? [] : [embeddedRpcMethods(solana.chain, version)],
    }),
  )
  await open('websocket', config.websocket.enabled, () =>
    startWebsocket(config.websocket, {
      ...shared,
      meters: declareWebsocketMeters(meters),
      version,
      methods: [],
      solana: solana && {
        ...solana,
        readAccount: (key) => solana.chain.ledger.account(key, 0),
      },
    }),
  )
  await open('grpc', config.grpc.enabled, () =>
    startGrpc(config.grpc, {
      ...shared,
      meters: declareGrpcMeters(meters),
      hub: solana?.hub ?? null,
      certificates: tls,
      addresses: new Addresses(trustedProxies),
      version: deps.version,
    }),
  )
  await open('metrics', config.metrics.enabled, () =>
    startMetrics(config.metrics, {
      ...shared,
      events,
      view: execution,
      run: randomBytes(8).toString('hex'),
      version: deps.version,
      restartSource: () => execution.restartSource(),
      exit: deps.exit,
    }),
  )
  return doors
}

/** Sources -> shred worker -> destinations; packets never come to this thread. */
async function openShreds(
  config: Config,
  deps: TopologyDeps,
  parts: Parts,
  given: Ground & Roads & { doors: Record<string, DoorAddress> },
): Promise<Shredstream | null> {
  if (!config.shredstream.enabled) return null
  const onDown = (fault: Fault) => {
    deps.log.error('the shred worker is down for good', { reason: fault.message })
    deps.exit(1)
  }
  const { clock, log } = deps
  const shreds = await parts.add('shredstream', () =>
    startShredstream(config.shredstream, { ...given, clock, log, onDown }),
  )
  if (shreds.address !== null) given.doors.shredstream = shreds.address
  if (shreds.feed !== null) given.solana?.tee.add(shreds.feed)
  return shreds
}

/** No token here: the tip decides. Into the upstreams that are named, or our own chain. */
async function openTpu(
  config: Config,
  deps: TopologyDeps,
  parts: Parts,
  given: Ground & Roads & { doors: Record<string, DoorAddress> },
): Promise<RunningTpu | null> {
  const { solana, meters, data, tls } = given
  if (!config.tpu.enabled || solana === null) return null
  const { chain, hub, verifier } = solana
  const { clock } = deps
  const log = deps.log.area('tpu')
  const upstreams = config.tpu.upstreams.map(
    (address, index) => new RpcSender(`upstream ${index + 1}`, address, { clock, log }),
  )
  const isOwn = upstreams.length === 0
  await Promise.all(upstreams.map((upstream) => upstream.warm()))
  const tpu = await parts.add('tpu', () =>
    startTpu(config.tpu, {
      senders: isOwn ? [new ChainSender(chain)] : upstreams,
      hub: isOwn ? hub : null,
      slot: () => (isOwn ? chain.slot(0) : null),
      isBlockhashValid: (blockhash) => (isOwn ? chain.isBlockhashValid(blockhash, 0) : null),
      verifier,
      meters: declareTpuMeters(meters),
      tipAccountsPath: join(data, 'tip-accounts.json'),
      version: { ...solanaVersion, sluice: deps.version },
      tls,
      trustedProxies: config.trustedProxies,
      clock,
      log: deps.log,
    }),
  )
  if (tpu.address !== null) given.doors.tpu = tpu.address
  return tpu
}

async function lock(data: string) {
  const locked = await lockData(data)
  if (!locked.ok) throw new Fault('data-locked', locked.refusal.message)
  return { stop: () => locked.value.release() }
}

function opened(config: Config, data: string, clock: Clock): Opened {
  const store = openStore(join(data, 'registry'), { clock, known: knownOf(config) })
  return { store, stop: () => store.close() }
}

interface Opened {
  readonly store: Store
  stop(): Promise<void>
}

/** Starts something with a clock of its own, so that it can be handed to `Parts`. */
function started<T extends { start(): void }>(part: T): T {
  part.start()
  return part
}

function certificates({ tls }: Config, log: Log) {
  if (tls.cert === '') return { pair: null, stop() {} }
  const files = { certPath: resolve(tls.cert), keyPath: resolve(tls.key) }
  const pair = new CertificatePair(files, log.area('tls'))
  return { pair, stop: () => pair.stop() }
}

/** Tells scripts and tests where the doors are; gone when the server is. */
function doorsFile(path: string, doors: Readonly<Record<string, DoorAddress>>) {
  const fresh = `${path}.${process.pid}`
  writeFileSync(fresh, `${JSON.stringify(doors)}\n`)
  renameSync(fresh, path)
  return { stop: () => rmSync(path, { force: true }) }
}
