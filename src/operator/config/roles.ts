// Derives the configurations of a hub and of its gateways from the one that an operator wrote.
// Pure. Both run the same program: what is enabled, and where, is all the difference.
//
//   hub        sources, devnode, shreds, index, event numbers; metrics, tpu, indexer, shredstream;
//              grpc on a free port of loopback, for its gateways alone
//   gateway    rpc, websocket, grpc on the shared ports; Solana stream from the hub's grpc
import { join, resolve } from 'node:path'
import { initialOf } from '../../base/fields.ts'
import { grpcSection } from '../../products/grpc/config.ts'
import { defaultSet, type NodeSection, singleNodeSet } from '../../upstream/config.ts'
import { type Config, takesQueryToken } from './config.ts'

/** Products that every gateway serves, on ports that they share. */
export const gatewayProducts = ['rpc', 'websocket', 'grpc'] as const
export type GatewayProduct = (typeof gatewayProducts)[number]

/** True when this process starts gateways and serves none of their products itself. */
export function isHub({ cluster }: Config): boolean {
  return cluster.gateways > 0
}

/** True where the frames of several gateways have one numbering. */
export function sharesEvents({ cluster, metrics, indexer }: Config): boolean {
  return cluster.url !== '' && (metrics.enabled || indexer.enabled)
}

/**
 * True where this process writes the index. The one index of several gateways, on a ClickHouse
 * server, is written by a program of its own, `sluice indexer serve`; a hub starts it beside its
 * gateways, for which it takes tips and queries.
 */
export function writesIndex(config: Config): boolean {
  const { cluster, indexer } = config
  if (!indexer.enabled || !indexer.write) return false
  return cluster.url === '' || indexer.engine !== 'clickhouse' || isHub(config)
}

/** The configuration of the process that the operator started. */
export function ownConfig(config: Config): Config {
  if (!isHub(config)) return config
  // An operator's limits of grpc are for customers: gateways read the whole stream.
  const grpc = { ...initialOf(grpcSection.fields), host: '127.0.0.1', port: 0 }
  return {
    ...config,
    rpc: { ...config.rpc, enabled: false },
    websocket: { ...config.websocket, enabled: false },
    grpc,
    // Customers read the streams of its gateways, each of which keeps its own.
    streams: { ...config.streams, keep: 0 },
    cluster: { ...config.cluster, sharePorts: false },
  }
}

export interface GatewayPlace {
  /** From 1. */
  readonly number: number
  /** Names the hub; the gateway's own name is derived from it. */
  readonly hub: string
  readonly ports: Readonly<Partial<Record<GatewayProduct, number>>>
  /** The hub's geyser stream. */
  readonly stream: Pick<NodeSection, 'grpc' | 'xToken'>
  /** JSON-RPC of the embedded chain; null when the nodes are configured ones. */
  readonly devnode: Pick<NodeSection, 'rpc' | 'xToken'> | null
}

/** The configuration of one gateway of a hub. */
export function gatewayConfig(config: Config, place: GatewayPlace): Config {
  const { number, ports, stream, devnode } = place
  const off = <S extends { readonly enabled: boolean }>(section: S) => ({
    ...section,
    enabled: false,
  })
  const on = <S extends { readonly port: number }>(section: S, product: GatewayProduct) => ({
    ...section,
    port: ports[product] ?? section.port,
  })
  return {
    ...config,
    data: gatewayFolder(config, number),
    chain: { ...config.chain, source: 'upstream' },
    upstreams: { ...config.upstreams, [defaultSet]: streamedSet(config, stream, devnode) },
    rpc: on(config.rpc, 'rpc'),
    // A gateway's own sources look like real ones: the hub's decide.
    websocket: {
      ...on(config.websocket, 'websocket'),
      queryToken: takesQueryToken(config),
    },
    grpc: on(config.grpc, 'grpc'),
    metrics: off(config.metrics),
    tpu: off(config.tpu),
    shredstream: off(config.shredstream),
    indexer: off(config.indexer),
    operator: off(config.operator),
    cluster: { ...config.cluster, gateways: 0, sharePorts: true, gateway: gatewayName(place) },
  }
}

export function gatewayName({ hub, number }: Pick<GatewayPlace, 'hub' | 'number'>): string {
  return `${hub}-g${number}`
}

/** Label of the subscription with which the gateways of a hub read its stream. */
export const streamLabel = (hub: string) => `gateways-${hub}`.slice(0, 64)

export function gatewayFolder({ data }: Config, number: number): string {
  return join(resolve(data), `g${number}`)
}

/** Calls go to the nodes themselves; their stream comes once to this machine, through the hub. */
function streamedSet(
  config: Config,
  stream: Pick<NodeSection, 'grpc' | 'xToken'>,
  devnode: Pick<NodeSection, 'rpc' | 'xToken'> | null,
) {
  const [hub] = singleNodeSet({ ...stream, region: 'hub' }).nodes
  if (devnode !== null) {
    const set = singleNodeSet(devnode)
    return { ...set, nodes: [...set.nodes, hub!] }
  }
  const set = config.upstreams[defaultSet]!
  const nodes = set.nodes.filter(({ rpc }) => rpc !== '').map((node) => ({ ...node, grpc: '' }))
  return { ...set, nodes: [...nodes, hub!] }
}
