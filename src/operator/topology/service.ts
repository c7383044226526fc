// Starts the service from the topology and answers questions about it.
import { renameSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { systemClock } from '../../base/clock.ts'
import { isFault } from '../../base/errors.ts'
import { exitNow } from '../../base/exit.ts'
import { Readiness, type ReadyCheck } from '../../base/readiness.ts'
import type { EndpointAddress } from '../../base/running.ts'
import type { Family } from '../../base/telemetry/exposition.ts'
import { faultReport, type Log } from '../../base/telemetry/log.ts'
import { Meters } from '../../base/telemetry/meters.ts'
import { openLog } from '../../base/telemetry/open-log.ts'
import { runningThreads } from '../../base/threads/running.ts'
import { type OperatorQuestion, startOperatorSocket } from '../../base/transport/unix-socket.ts'
import { declareClusterMeters } from '../../customers/cluster/meters.ts'
import { declareNoticeMeters, declareUsagePushMeters } from '../../customers/push/push.ts'
import type { Store } from '../../customers/subscriptions/store.ts'
import type { DevnodeProcess } from '../../devnode/process.ts'
import { topology } from '../../topology.ts'
import { type Config, enabledEndpoints, offerOf, ownConfig, sourcesOf } from '../config/config.ts'
import type { RecordRequest } from '../record/recorder.ts'
import type { TopologyDeps } from './context.ts'
import { ComponentLifecycle, type Components } from './lifecycle.ts'
import { geyserStatus } from './set-chains.ts'
import { DrainedNodes, type DrainRequest, setOf } from './upstream.ts'

export interface Service {
  readonly endpoints: Readonly<Record<string, EndpointAddress>>
  /** The source of each product's data, by its key. */
  readonly sources: ReadonlyMap<string, string>
  readonly store: Store
  readonly meters: Meters
  /** Figures per customer: for the operator alone. */
  readonly customerMeters: Meters
  /** Applies a change of the registry now instead of at the next poll. */
  refresh(): void
  /** Applies what may change while the service runs: the tip accounts. */
  reconfigure(config: Config): void
  /** Applies a change of drained nodes that another process made. */
  refreshDrained(): void
  /** Resolves once the sources of all enabled products deliver; false after `msMax`. */
  whenReady(msMax: number): Promise<boolean>
  /** Writes <data>/doors.json: every endpoint is open. */
  announce(): void
  stop(): Promise<void>
}

export async function startTopology(given: Config, deps: TopologyDeps): Promise<Service> {
  const config = ownConfig(given)
  const { log } = deps
  const data = resolve(config.data)
  const meters = new Meters()
  const customerMeters = new Meters()
  const readiness = new Readiness()
  const context = { ...deps, config, given, data, meters, customerMeters, readiness }
  const lifecycle = new ComponentLifecycle(topology, context, (component) =>
    log.warn('component did not stop in time', { component }),
  )
  const components = await lifecycle.start()
  readiness.begin(readyChecks(config, components))
  declareClusterMeters(meters, components)
  declareUsagePushMeters(meters, components.usagePush)
  declareNoticeMeters(meters, components.notices?.push ?? null)
  const { cluster, registry, sharedRegistry, directory, gate } = components
  const { tpu, shredstream, recorder } = components
  const endpoints = addressesOf(components)
  const sources = sourcesOf(config)
  const doorsPath = join(data, 'doors.json')
  const ownFolder = deps.isOfHub ? dirname(data) : data
  const drained = new DrainedNodes(ownFolder, components.upstreams, log)
  const answers = {
    status: statusOf(components, { deps, endpoints, sources }),
    shreds: () => shredstream?.report() ?? null,
    tips: ({ params }: OperatorQuestion) => tpu?.report(Number(params.count ?? 20)) ?? null,
    meters: async () => (await meters.render('text')).body,
    customers: ({ params }: OperatorQuestion) =>
      customerMeters.render(params.format === 'openmetrics' ? 'openmetrics' : 'text'),
    'tip-accounts': () => ({ tipAccounts: tpu?.tipAccounts() ?? [] }),
    drain: async ({ params }: OperatorQuestion) => {
      if (deps.isOfHub) return { problem: `nodes are drained at the hub: add --data ${ownFolder}` }
      // Reason for the cast: the command is of the same build.
      const answer = drained.change(params as unknown as DrainRequest)
      if (!('problem' in answer)) await components.gateways?.refreshDrained()
      return answer
    },
    // Reason for the cast: as above.
    record: ({ params }: OperatorQuestion) =>
      recorder.start(params as unknown as RecordRequest, { shreds: shredstream?.admits ?? null }),
    'record-state': () => recorder.state,
    'record-stop': () => recorder.finish('it was ended by its operator'),
    offer: () => offerOf(given),
    // The operator API asks before it trusts a credential, which an old copy may not know revoked.
    registry: () => ({ isCurrent: !gate.isExpired() && !directory.isRolledBack }),
    cluster: async () =>
      sharedRegistry && {
        registry: await sharedRegistry.verbs.head(),
        gateways: await cluster!.gateways(),
      },
    // Within 250 ms it would be so anyway: a command asks for it before it reports a change.
    apply: async () => {
      await sharedRegistry?.follower.pull()
      directory.refresh()
      return { version: directory.version() }
    },
  }
  const operator = await startOperatorSocket(data, answers, log).catch(async (error: unknown) => {
    await lifecycle.stop().catch(() => {})
    throw error
  })
  return {
    endpoints,
    sources,
    store: registry,
    meters,
    customerMeters,
    refresh: () => directory.refresh(),
    refreshDrained: () => drained.refresh(),
    reconfigure: (changed) => tpu?.changeTipAccounts(changed.tpu.tipAccounts),
    whenReady: (msMax) => readiness.whenReady(msMax),
    announce: () => writeWhole(doorsPath, `${JSON.stringify(endpoints)}\n`),
    async stop() {
      readiness.end()
      const removed = rm(doorsPath, { force: true })
      await removed.catch(faultReport(log, 'doors.json was not removed'))
      // Before the socket closes: a command that misses it may rely on a file that is whole.
      await recorder.stop()
      await operator.stop()
      await lifecycle.stop()
    },
  }
}

/** The addresses of the endpoints for customers, in the order of the topology. */
function addressesOf(components: Components): Record<string, EndpointAddress> {
  const open = (Object.keys(topology) as (keyof Components)[]).flatMap((name) => {
    if (topology[name].kind !== 'endpoint') return []
    const shared = components.gateways?.endpoints[name]
    if (shared !== undefined) return [[name, shared] as const]
    // The grpc of a hub is for its gateways alone.
    if (components.gateways !== null && name === 'grpc') return []
    // Reason for the cast: every endpoint is started by a product.
    const endpoint = components[name] as { readonly address: EndpointAddress | null } | null
    return endpoint?.address == null ? [] : [[name, endpoint.address] as const]
  })
  const feeds = components.indexFeeds?.address
  return Object.fromEntries(feeds ? [...open, ['indexer.feeds', feeds]] : open)
}

/** What the command `sluice status` shows. */
export type ServerStatus = Awaited<ReturnType<ReturnType<typeof statusOf>>>

function statusOf(
  components: Components,
  about: {
    readonly deps: TopologyDeps
    readonly endpoints: Readonly<Record<string, EndpointAddress>>
    readonly sources: ReadonlyMap<string, string>
  },
) {
  const { clock, version } = about.deps
  const { directory, gate, devnode, upstreams, chains, usagePush, notices } = components
  const startedMs = clock.monotonicMs()
  const names = Object.keys(topology) as (keyof Components)[]
  return async () => ({
    version,
    pid: process.pid,
    uptimeSecs: Math.floor((clock.monotonicMs() - startedMs) / 1000),
    doors: about.endpoints,
    sources: Object.fromEntries(about.sources),
    chain: chainStatus(devnode),
    upstreams: upstreams.report(),
    ...geyserStatus(chains),
    ...(await gatewayStatus(components)),
    registry: { version: directory.version(), isRolledBack: directory.isRolledBack },
    ...(usagePush !== null && { usagePush: usagePush.report() }),
    ...(notices !== null && { notices: notices.push.report() }),
    held: gate.leaseCount(),
    components: names.filter((name) => components[name] !== null).join(' '),
    threads: runningThreads(),
  })
}

/** The embedded chain; null when the nodes are configured ones. */
function chainStatus(devnode: DevnodeProcess | null) {
  if (devnode === null) return null
  return { pid: devnode.pid, healthy: devnode.isUp, ...devnode.stats.slots }
}

/** A reader never sees half a file. */
function writeWhole(path: string, text: string): void {
  const fresh = `${path}.${process.pid}`
  writeFileSync(fresh, text)
  renameSync(fresh, path)
}

/** A gateway writes its row every second; one that missed three is away. */
const awayMs = 3_000

interface GatewayStatus {
  readonly name: string
  readonly state: 'up' | 'starting' | 'away'
  /** Since it last wrote its row; null where PostgreSQL has none of it. */
  readonly seenMs: number | null
  /** Of a gateway of this hub. */
  readonly pid: number | null
  readonly restarts: number | null
}

/** All gateways of the cluster, with the processes of this hub. */
async function gatewayStatus({ cluster, gateways }: Components) {
  if (cluster === null) return {}
  // Without PostgreSQL the processes of this hub are still known.
  const rows = await cluster.gateways().catch(() => [])
  const newest = new Map(rows.toSorted((a, b) => b.ageMs - a.ageMs).map((row) => [row.name, row]))
  const own = new Map((gateways?.report() ?? []).map((report) => [report.name, report]))
  const names = [...new Set([...newest.keys(), ...own.keys()])].toSorted()
  const list = names.map((name): GatewayStatus => {
    const seenMs = newest.get(name)?.ageMs ?? null
    const report = own.get(name)
    const isUp = report?.isUp ?? (seenMs !== null && seenMs < awayMs)
    const state = isUp ? 'up' : report === undefined ? 'away' : 'starting'
    return { name, state, seenMs, pid: report?.pid ?? null, restarts: report?.restarts ?? null }
  })
  return { gateways: list }
}

/** As the endpoint's own limit, after which it closes. */
const eventAgeMsMax = 30_000

/** What GET /ready checks: that the sources of the enabled products deliver. */
function readyChecks(config: Config, components: Components): (() => ReadyCheck)[] {
  const open = new Set(enabledEndpoints(config).map(({ name }) => name))
  const { proxy, chains, execution, cluster, sharedRegistry, sharedEvents } = components
  const { gateways } = components
  const checks: (() => ReadyCheck)[] = []
  if (gateways !== null) checks.push(() => ({ name: 'gateways', ok: gateways.isServing() }))
  if (open.has('rpc')) checks.push(() => ({ name: 'rpc nodes', ok: proxy.health() === 'ok' }))
  const chain = chains.of(setOf({ upstream: null }))
  if (chain !== null && (open.has('websocket') || open.has('grpc')))
    checks.push(() => ({ name: 'solana stream', ok: chain.isUp() }))
  if (open.has('metrics'))
    checks.push(() => {
      const ageMs = execution!.lastEventAgeMs()
      return { name: 'events', ok: ageMs < eventAgeMsMax, age_ms: Math.round(ageMs) }
    })
  const { staleMs } = config.cluster
  if (cluster !== null) checks.push(() => aged('cluster', cluster.ageMs(), staleMs))
  if (sharedRegistry !== null)
    checks.push(() => aged('registry', sharedRegistry.follower.ageMs(), staleMs))
  if (sharedEvents !== null) checks.push(() => aged('event log', sharedEvents.ageMs(), staleMs))
  return checks
}

function aged(name: string, ageMs: number, ageMsMax: number): ReadyCheck {
  return { name, ok: ageMs <= ageMsMax, age_ms: Math.round(ageMs) }
}

let service: Service | null = null

export async function startGateway(request: {
  readonly config: Config
  readonly version: string
}): Promise<void> {
  const { config, version } = request
  const log = openLog(config.logLevel, { gateway: config.cluster.gateway })
  surviveFaults(log)
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
  // What the hub changed since this process read it, and could not report to it yet.
  service.refreshDrained()
}

export async function gatewayMeters(): Promise<readonly Family[]> {
  return (await service?.meters.families()) ?? []
}

export async function customerMeters(): Promise<readonly Family[]> {
  return (await service?.customerMeters.families()) ?? []
}

export function refreshDrained(): void {
  service?.refreshDrained()
}

export async function stopGateway(): Promise<void> {
  await service?.stop()
}

/**
 * A fault is logged and the server keeps running; anything else is a bug and exits the process.
 * Returns the function that removes the handler.
 */
export function surviveFaults(log: Log): () => void {
  const report = faultReport(log, 'fault was not handled')
  const onError = (error: unknown) => {
    if (isFault(error)) return report(error)
    log.error('server exits after a bug', {
      reason: (error instanceof Error && error.stack) || String(error),
    })
    exitNow(1)
  }
  process.on('uncaughtException', onError)
  return () => process.off('uncaughtException', onError)
}
