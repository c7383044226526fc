// Constructs the products, each with its endpoint.
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { basename, join } from 'node:path'
import { Commitment } from '../../base/commitment.ts'
import { messageOf } from '../../base/errors.ts'
import { Addresses } from '../../base/transport/address.ts'
import { decodeKey } from '../../chain/solana/base58.ts'
import { shapesByVersion } from '../../chain/solana/version.ts'
import { Consumers } from '../../customers/subscriptions/consumers.ts'
import { IngestPipeline, unknownFreshness } from '../../indexer/ingest.ts'
import { declareIndexerMeters, declareIngestMeters } from '../../indexer/meters.ts'
import { QueryService } from '../../indexer/queries/service.ts'
import { startGrpc } from '../../products/grpc/server.ts'
import { openIndexFeeds } from '../../products/indexer/feeds.ts'
import { startIndexer } from '../../products/indexer/server.ts'
import { type MetricsDeps, startMetrics, unsentBytesMax } from '../../products/metrics/server.ts'
import { declareRpcMeters } from '../../products/rpc/meters.ts'
import { startRpc } from '../../products/rpc/server.ts'
import { startShredstream } from '../../products/shredstream/server.ts'
import { declareTpuMeters } from '../../products/tpu/meters.ts'
import { startTpu } from '../../products/tpu/server.ts'
import { declareWebsocketMeters } from '../../products/websocket/meters.ts'
import { startWebsocket } from '../../products/websocket/server.ts'
import { declareGrpcMeters } from '../../streams/geyser/meters.ts'
import { declareProxyMeters } from '../../upstream/proxy/method-policy.ts'
import { RpcProxy } from '../../upstream/proxy/rpc-proxy.ts'
import { transactionSenders } from '../../upstream/transaction-senders.ts'
import { isHub, takesQueryToken, tpuUpstreamsOf, writesIndex } from '../config/config.ts'
import type { Context } from './context.ts'
import type { Components } from './lifecycle.ts'
import type { SetChains } from './set-chains.ts'
import { downOf, setOf } from './upstream.ts'

export const metricsUnsentBytes = unsentBytesMax

/** Names this run of the server in the writer lease of ClickHouse. */
const holder = `${hostname()} pid ${process.pid} run ${randomBytes(4).toString('hex')}`

/** Some of the components by name. */
type Read<K extends keyof Components> = Pick<Components, K>
type Admission = Read<'gate' | 'quota' | 'certificates' | 'recorder'>

/** What every product with customers is given. */
function sharedOf({ config, clock, log }: Context, read: Admission) {
  const { gate, quota, certificates, recorder: calls } = read
  const { trustedProxies, connectionsPerAddressMax, cluster } = config
  const { sharePorts } = cluster
  const listener = { tls: certificates, trustedProxies, connectionsPerAddressMax, sharePorts }
  return { gate, ...quota, ...listener, calls, clock, log }
}

const chainOf = (chains: SetChains) => (served: { readonly upstream: string | null }) =>
  chains.of(setOf(served))

export function openProxy(context: Context, read: Read<'upstreams' | 'chains'>) {
  const { meters, version, clock } = context
  const { upstreams, chains } = read
  const tally = declareProxyMeters(meters)
  const answersOf = (set: string) => chains.answersOf(set)
  return new RpcProxy({ upstreams, tally, version, clock, answersOf })
}

export function openRpc(
  context: Context,
  read: Admission & Read<'proxy' | 'registry' | 'sharedRegistry'>,
) {
  const { config, meters } = context
  const { proxy, registry, sharedRegistry } = read
  return startRpc(config.rpc, {
    ...sharedOf(context, read),
    meters: declareRpcMeters(meters),
    proxy,
    health: () => proxy.health(),
    usageOf: async (id) =>
      sharedRegistry === null ? registry.usage(id) : sharedRegistry.report(id),
  })
}

export function openWebsocket(context: Context, read: Admission & Read<'chains'>) {
  const { config, meters, version } = context
  const section = { ...config.websocket, queryToken: takesQueryToken(config) }
  return startWebsocket(section, {
    ...sharedOf(context, read),
    meters: declareWebsocketMeters(meters),
    version: { ...shapesByVersion[config.chain.agave].release, sluice: version },
    methods: [],
    chainOf: chainOf(read.chains),
  })
}

export function openGrpc(
  context: Context,
  read: Admission & Read<'chains' | 'addressBudget' | 'registry' | 'sharedRegistry'>,
) {
  const { config, meters, version, clock, log } = context
  const { chains, certificates, addressBudget } = read
  const table = (read.sharedRegistry ?? read.registry).consumers
  return startGrpc(config.grpc, {
    ...sharedOf(context, read),
    addressBudget,
    consumers: new Consumers({ table, clock, log: log.area('grpc') }),
    meters: declareGrpcMeters(meters),
    chainOf: chainOf(chains),
    mainChain: chains.of(setOf({ upstream: null })),
    // The stream of a hub does not leave the machine.
    certificates: isHub(config) ? null : certificates,
    version,
    onDown: downOf(context, 'gRPC endpoint'),
  })
}

export function openMetrics(
  context: Context,
  read: Admission & Read<'addressBudget' | 'events' | 'execution' | 'chains'>,
) {
  const { config, meters, version, readiness, exit } = context
  const { addressBudget, events, chains } = read
  // Reason for the assertion: it runs wherever this endpoint does.
  const execution = read.execution!
  return startMetrics(config.metrics, {
    ...sharedOf(context, read),
    addressBudget,
    meters,
    events,
    view: execution,
    source: sourceName(config.metrics),
    solana: { sets: () => chains.solanaSets() },
    run: randomBytes(8).toString('hex'),
    version,
    ready: () => readiness.report(),
    restartSource: () => execution.restartSource(),
    exit,
  })
}

/** What readers of the metrics product are told about its source; never the folder of a file. */
function sourceName({ source, path }: Context['config']['metrics']): MetricsDeps['source'] {
  if (source === 'snapshot') return { kind: 'recording', file: basename(path) }
  return { kind: source === 'ring' ? 'ring' : 'generated' }
}

/** Sources -> shred worker -> destinations; packets never reach this thread. */
export async function openShredstream(
  context: Context,
  {
    devnode,
    directory,
    registry,
    sharedRegistry,
    destinationLeases,
    recorder,
  }: Read<
    'devnode' | 'directory' | 'registry' | 'sharedRegistry' | 'destinationLeases' | 'recorder'
  >,
) {
  const { config, clock, log, meters } = context
  const shreds = await startShredstream(config.shredstream, {
    directory,
    store: sharedRegistry?.verbs ?? registry,
    leases: destinationLeases,
    tap: recorder.taps.shreds,
    embeddedLeader: devnode && decodeKey(devnode.addresses.identity),
    meters,
    clock,
    log,
    onDown: downOf(context, 'shred worker'),
  })
  // Not awaited: the start would take as long as the devnode's shred worker. A restarted devnode
  // gets the address again.
  if (config.shredstream.feed === 'embedded')
    devnode?.sendShreds(shreds.ingest).catch((error: unknown) => {
      log.warn('devnode did not start sending shreds', { reason: messageOf(error) })
    })
  return shreds
}

/** The tip decides; the token of a dedicated node only names the set. */
export async function openTpu(
  context: Context,
  read: Admission & Read<'upstreams' | 'chains' | 'verifyPool' | 'addressBudget'>,
) {
  const { config, data, meters, version } = context
  const { upstreams, chains, verifyPool, addressBudget, quota } = read
  const { clock, log, ...shared } = sharedOf(context, read)
  const upstreamOf = (names: readonly string[]) => {
    const senders = transactionSenders(names, upstreams, { clock, log: log.area('tpu') })
    // Where a set's stream shows what landed, no node is polled for it.
    const chain = names.map((name) => chains.of(name)).find((found) => found !== null) ?? null
    return {
      senders,
      hub: chain?.hub ?? null,
      slot: () => chain?.heads.at(Commitment.processed)?.slot ?? null,
      isBlockhashValid: (blockhash: Uint8Array) => chain?.isBlockhashValid(blockhash) ?? null,
    }
  }
  const all = upstreamOf(tpuUpstreamsOf(config))
  await Promise.all(all.senders.map((sender) => sender.warm()))
  return startTpu(config.tpu, {
    ...shared,
    ...all,
    dedicated: (set) => (upstreams.set(set) === null ? null : upstreamOf([set])),
    verifier: verifyPool,
    meters: declareTpuMeters(meters),
    addressBudget,
    addressRefused: quota.quotaMeters.addressRefused.tpu,
    tipAccountsPath: join(data, 'tip-accounts.json'),
    version: { ...shapesByVersion[config.chain.agave].release, sluice: version },
    clock,
    log,
  })
}

export function openFeeds(
  { config, data, version, clock, log }: Context,
  {
    events,
    gate,
    certificates,
    addressBudget,
  }: Read<'events' | 'gate' | 'certificates' | 'addressBudget'>,
) {
  const { indexer, connectionsPerAddressMax, trustedProxies } = config
  const addresses = new Addresses(trustedProxies)
  const admission = {
    ...{ gate, certificates, addressBudget, addresses },
    connectionsPerAddressMax: connectionsPerAddressMax || Number.POSITIVE_INFINITY,
  }
  const remote = indexer.feeds.enabled ? { ...indexer.feeds, ...admission } : null
  return openIndexFeeds(join(data, 'index.sock'), { events, remote, version, clock, log })
}

export function runIngest(
  { config, data, clock, log, meters }: Context,
  { indexFeeds }: Read<'indexFeeds'>,
) {
  return IngestPipeline.start(config.indexer, {
    // Reason for the assertion: they are served wherever the index is written.
    feeds: indexFeeds!,
    folder: join(data, 'index'),
    holder,
    meters: declareIngestMeters(meters),
    clock,
    log,
  })
}

export function startQueries({ config, data, meters, clock, log }: Context) {
  const places = { folder: join(data, 'index'), socket: join(data, 'results.sock') }
  const deps = { ...places, holder: writesIndex(config) ? holder : null, meters, clock, log }
  return QueryService.start(config.indexer, deps)
}

/** Rows of the shared set only: rows of a dedicated set would belong to its subscription alone. */
export function openIndexer(
  context: Context,
  read: Admission & Read<'ingest' | 'indexFeeds' | 'queries' | 'chains' | 'tpu'>,
) {
  const { config, meters } = context
  const { ingest, indexFeeds, queries, chains, tpu } = read
  const chain = chains.of(setOf({ upstream: null }))
  if (chain !== null) indexFeeds!.serve(chain)
  tpu?.listen((row) => indexFeeds!.tip(row))
  return startIndexer(config.indexer, {
    ...sharedOf(context, read),
    queries: queries!.queries,
    meters: declareIndexerMeters(meters),
    usage: (fact) => indexFeeds!.usage(fact),
    freshness: () => ingest?.freshness() ?? unknownFreshness,
  })
}
