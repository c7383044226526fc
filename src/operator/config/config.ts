// Declares the configuration of the service, composed of the sections that modules declare.
// A new section is one import and one line here; the rest is derived from it.

import { networkInterfaces } from 'node:os'
import { join, resolve } from 'node:path'
import { isLoopback, parseCidr } from '../../base/cidr.ts'
import {
  choice,
  flag,
  group,
  initialOf,
  integer,
  text,
  texts,
  type Values,
} from '../../base/fields.ts'
import { clusterSection } from '../../customers/cluster/config.ts'
import {
  checkReceiver,
  checkUsagePush,
  usageSection,
  webhooksSection,
} from '../../customers/push/config.ts'
import { addressBudgetSection } from '../../customers/quota/config.ts'
import { plansSection } from '../../customers/subscriptions/plans.ts'
import { chainSection } from '../../devnode/config.ts'
import { indexerSection } from '../../indexer/config.ts'
import { grpcSection } from '../../products/grpc/config.ts'
import { metricsSection } from '../../products/metrics/config.ts'
import { rpcSection } from '../../products/rpc/config.ts'
import { shredstreamSection, sourcePortOf } from '../../products/shredstream/config.ts'
import { isAddress, tpuSection } from '../../products/tpu/config.ts'
import { websocketSection } from '../../products/websocket/config.ts'
import { streamsSection } from '../../streams/segments/config.ts'
import {
  checkUpstreams,
  defaultSet,
  type NodeSection,
  singleNodeSet,
  upstreamsSection,
} from '../../upstream/config.ts'
import { executionSourceFields } from '../../upstream/execution/config.ts'

const operatorSection = group(
  'The operator API on a port, besides <data>/operator-http.sock, which every server has.',
  {
    enabled: flag({ initial: false, doc: 'Opens the port; its callers need a credential.' }),
    host: text({
      initial: '127.0.0.1',
      doc: 'Address to listen on; beyond loopback tls.cert is required.',
    }),
    port: integer({ initial: 8444, min: 0, max: 65_535, doc: 'Port; 0 takes any free one.' }),
    names: texts({
      initial: [],
      doc: 'Host names that requests may address, besides localhost and the address itself.',
      check: (value) =>
        /^[a-z0-9.-]{1,253}$/i.test(value) ? undefined : `${value} is not a host name`,
    }),
  },
)

export const configFields = {
  data: text({
    initial: './data',
    doc: 'Folder of the registry, the operator socket and all other stored data.',
    check: (value) => (value.trim() === '' ? 'must not be empty' : undefined),
  }),
  logLevel: choice(['debug', 'info', 'warn', 'error', 'silent'], {
    initial: 'info',
    doc: 'Lowest level of log lines that are written to stderr.',
  }),
  tls: group('Certificate of every TCP endpoint; reloaded when the files change.', {
    cert: text({ initial: '', doc: 'PEM file with the certificate chain; empty means plaintext.' }),
    key: text({ initial: '', doc: 'PEM file with the private key of the certificate.' }),
  }),
  allowPlaintext: flag({
    initial: false,
    doc: 'Lets endpoints listen beyond loopback without TLS, behind a proxy that has it.',
  }),
  trustedProxies: texts({
    initial: [],
    doc: 'CIDRs of proxies whose X-Forwarded-For is trusted; empty means the header is ignored.',
    check: (value) =>
      parseCidr(value) !== null ? undefined : `${value} is not a CIDR such as 10.0.0.0/8`,
  }),
  connectionsPerAddressMax: integer({
    initial: 1_024,
    min: 0,
    max: 1_000_000,
    doc: 'Connections of one address (IPv4 /32, IPv6 /64) to one HTTP endpoint; 0: any number.',
  }),
  addressBudget: addressBudgetSection,
  cluster: clusterSection,
  chain: chainSection,
  upstreams: upstreamsSection,
  streams: streamsSection,
  rpc: rpcSection,
  websocket: websocketSection,
  grpc: grpcSection,
  tpu: tpuSection,
  // The product and the source of its events are two modules under one key.
  metrics: group(metricsSection.doc, { ...metricsSection.fields, ...executionSourceFields }),
  shredstream: shredstreamSection,
  indexer: indexerSection,
  plans: plansSection,
  usage: usageSection,
  webhooks: webhooksSection,
  operator: operatorSection,
}

/** Frozen after loading. */
export type Config = Values<typeof configFields>

/** Endpoints over UDP: the rules of TLS and plaintext do not apply to them. */
const UDP_ENDPOINTS: ReadonlySet<string> = new Set(['shredstream'])

export interface Endpoint {
  readonly name: string
  readonly host: string
  readonly port: number
  readonly udp: boolean
}

/** Every enabled section with a host and a port, in the order of the configuration. */
export function enabledEndpoints(config: Config): Endpoint[] {
  const endpoints: Endpoint[] = []
  for (const [name, section] of Object.entries(config)) {
    if (!isEndpointSection(section) || !section.enabled) continue
    endpoints.push({ name, host: section.host, port: section.port, udp: UDP_ENDPOINTS.has(name) })
  }
  const { enabled, feeds } = config.indexer
  if (enabled && feeds.enabled) endpoints.push({ ...feeds, name: 'indexer.feeds', udp: false })
  return endpoints
}

/** Keys that name where a product's data comes from. */
const SOURCES = ['chain.source', 'metrics.source', 'shredstream.feed'] as const

/** The products that each such key feeds. */
const PRODUCTS_OF: Readonly<Record<(typeof SOURCES)[number], readonly string[]>> = {
  'chain.source': ['rpc', 'websocket', 'grpc', 'tpu'],
  'metrics.source': ['metrics'],
  'shredstream.feed': ['shredstream'],
}

/** True when an enabled product reads the devnode: the embedded Solana chain. */
export function needsDevnode(config: Config): boolean {
  if (config.chain.source === 'upstream') return false
  const needing = config.shredstream.feed === 'embedded' ? ['shredstream'] : []
  const names = [...PRODUCTS_OF['chain.source'], ...needing]
  return enabledEndpoints(config).some(({ name }) => names.includes(name))
}

/**
 * Once one real source is configured, every enabled product has its source set explicitly: none
 * serves generated data beside real data because a key was forgotten.
 */
function checkSources(config: Config, isSet: (key: string) => boolean): string[] {
  const real = realSourceOf(config)
  if (real === null) return []
  const enabled = new Set(enabledEndpoints(config).map(({ name }) => name))
  // Transactions go to the named nodes, not to the chain.
  if (config.tpu.upstreams.length > 0) enabled.delete('tpu')
  return SOURCES.flatMap((key) => {
    const products = PRODUCTS_OF[key].filter((name) => enabled.has(name))
    const isImplicit = sourcesOf(config).get(key) === 'embedded' && !isSet(key)
    if (!isImplicit || products.length === 0) return []
    const disable = products.map((name) => `${name}.enabled: false`).join(', ')
    return [`${real} is a real source and ${key} is not set: set ${key}, or ${disable}`]
  })
}

/** The key of a configured source that is not embedded; null when all are embedded. */
function realSourceOf(config: Config): string | null {
  if (config.tpu.upstreams.length > 0) return 'tpu.upstreams'
  const real = [...sourcesOf(config)].find(([, source]) => source !== 'embedded')
  if (real !== undefined) return real[0]
  const [set] = Object.keys(config.upstreams)
  return set === undefined ? null : `upstreams.${set}`
}

/** The configured source of each such key. */
export function sourcesOf({ chain, metrics, shredstream }: Config): ReadonlyMap<string, string> {
  return new Map([
    ['chain.source', chain.source],
    ['metrics.source', metrics.source],
    ['shredstream.feed', shredstream.feed],
  ])
}

/** True while no real source is configured; an upstream set counts as one. */
export function isAllEmbedded(config: Config): boolean {
  return realSourceOf(config) === null
}

/** True while nothing real can be reached: endpoints on loopback, embedded sources. */
export function isPrivate(config: Config): boolean {
  return isAllEmbedded(config) && enabledEndpoints(config).every(({ host }) => isLoopback(host))
}

/** Resolves `websocket.queryToken`. A URL with a token ends up in logs of proxies. */
export function takesQueryToken(config: Config): boolean {
  const { queryToken } = config.websocket
  if (queryToken !== 'auto') return queryToken
  return isPrivate(config) && config.trustedProxies.length === 0
}

/** One sentence per set without a geyser node, whose stream feeds websocket and grpc. */
export function setsWithoutGeyser(config: Config): string[] {
  const names = ['websocket', 'grpc'].filter((name) =>
    enabledEndpoints(config).some((endpoint) => endpoint.name === name),
  )
  if (names.length === 0) return []
  const missing = names.map((name) => `no ${name}`).join(' and ')
  return Object.entries(config.upstreams).flatMap(([set, { nodes }]) =>
    nodes.some(({ grpc }) => grpc !== '')
      ? []
      : [`upstreams.${set} has ${missing}: set grpc of a node to its geyser address`],
  )
}

/** Upstreams of the TPU Sender: addresses and names of sets. */
export function tpuUpstreamsOf({ tpu }: Config): readonly string[] {
  return tpu.upstreams.length > 0 ? tpu.upstreams : [defaultSet]
}

/**
 * Checks rules over several fields. Returns one sentence per problem. `isSet` returns whether a
 * key was set.
 */
export function checkConfig(config: Config, isSet: (key: string) => boolean): string[] {
  const problems: string[] = []
  if (config.tls.cert !== '' && config.tls.key === '')
    problems.push('tls.cert is set without tls.key: set both or none')
  if (config.tls.key !== '' && config.tls.cert === '')
    problems.push('tls.key is set without tls.cert: set both or none')
  if (config.cluster.gateways > 0 && config.cluster.url === '')
    problems.push(
      'cluster.gateways is set: set cluster.url to the PostgreSQL through which gateways share ' +
        'subscriptions and budgets',
    )
  if (config.metrics.enabled && config.metrics.source !== 'embedded' && config.metrics.path === '')
    problems.push(`metrics.source is ${config.metrics.source}: set metrics.path to its file`)
  const { enabled, engine, url } = config.indexer
  if (enabled && engine === 'clickhouse' && url === '')
    problems.push('indexer.engine is clickhouse: set indexer.url to its server')
  return [
    ...problems,
    ...checkUpstreams(config.upstreams, config.chain.source),
    ...checkSources(config, isSet),
    ...checkUsagePush(config.usage.push),
    ...checkReceiver('webhooks', config.webhooks),
    ...checkTpu(config),
    ...checkShredstream(config, isSet),
    ...checkEndpoints(config),
  ]
}

function checkTpu(config: Config): string[] {
  const { enabled, upstreams, tipAccounts } = config.tpu
  if (!enabled) return []
  const problems: string[] = []
  // Named by its index, not its text: a mistyped address may contain a key.
  for (const [index, upstream] of upstreams.entries())
    if (!isAddress(upstream) && !Object.hasOwn(config.upstreams, upstream))
      problems.push(`tpu.upstreams.${index} is neither an address nor a set of upstreams`)
  const isReal = upstreams.length > 0 || config.chain.source === 'upstream'
  if (isReal && tipAccounts.length === 0)
    problems.push(
      upstreams.length > 0
        ? 'tpu.upstreams is set: set tpu.tipAccounts, too, or real tips are lost'
        : 'chain.source is upstream: set tpu.tipAccounts, or real tips are lost',
    )
  return problems
}

function checkShredstream(
  { chain, shredstream }: Config,
  isSet: (key: string) => boolean,
): string[] {
  if (!shredstream.enabled) return []
  const problems: string[] = []
  const isEmbedded = shredstream.feed === 'embedded' && isSet('shredstream.feed')
  if (isEmbedded && chain.source === 'upstream')
    problems.push('shredstream.feed is embedded and chain.source is upstream: set it to udp')
  if (shredstream.port !== 0 && sourcePortOf(shredstream) === shredstream.port)
    problems.push('shredstream.sourcePort is shredstream.port: set another port')
  if (shredstream.verify && shredstream.feed !== 'embedded' && shredstream.leaders.length === 0)
    problems.push('shredstream.verify is true without shredstream.leaders: set them')
  return problems
}

function checkEndpoints(config: Config): string[] {
  const problems: string[] = []
  const seen = new Map<string, string>()
  for (const endpoint of enabledEndpoints(config)) {
    const isOpen = !endpoint.udp && config.tls.cert === '' && !isLoopback(endpoint.host)
    // Whoever may call it may do everything: no proxy stands in for its TLS.
    const mayBePlain = endpoint.name !== 'operator'
    if (isOpen && !(config.allowPlaintext && mayBePlain))
      problems.push(
        `${endpoint.name}.host ${endpoint.host} is not a loopback address and there is no TLS: ` +
          'set tls.cert and tls.key' +
          (mayBePlain ? ', or allowPlaintext when a proxy in front has TLS' : ''),
      )
    if (endpoint.port === 0) continue
    const address = `${endpoint.udp ? 'udp' : 'tcp'} ${endpoint.host}:${endpoint.port}`
    const other = seen.get(address)
    if (other !== undefined)
      problems.push(`${endpoint.name}.port ${endpoint.port} is taken by ${other}: set another port`)
    seen.set(address, endpoint.name)
  }
  return problems
}

function isEndpointSection(
  section: unknown,
): section is { enabled: boolean; host: string; port: number } {
  if (typeof section !== 'object' || section === null) return false
  return 'enabled' in section && 'host' in section && 'port' in section
}

/** Matches `Known` of the subscriptions module. */
export function knownOf(config: Config) {
  const { plans, upstreams, shredstream } = config
  const endpoints = enabledEndpoints(config).map(({ host, port }) => ({ host, port }))
  const interfaces = Object.values(networkInterfaces()).flatMap((found) =>
    (found ?? []).map(({ address }) => address),
  )
  // Shreds are sent from there: a challenge sent there would answer itself.
  const { sourceHost, host } = shredstream
  const shredSource = { host: sourceHost || host, port: sourcePortOf(shredstream) }
  return {
    plans: Object.keys(plans),
    upstreams: Object.keys(upstreams),
    destinationRules: {
      allowPrivate: shredstream.allowPrivate || isAllEmbedded(config),
      own: [...endpoints, shredSource],
      interfaces,
    },
  }
}

/** What a running server offers, which may have another configuration than a command. */
export function offerOf(config: Config) {
  const limits = Object.entries(config.plans).map(
    ([name, { creditsPer30Days }]) => [name, creditsPer30Days] as const,
  )
  return { known: knownOf(config), creditsPer30Days: Object.fromEntries(limits) }
}

// Derives the configurations of a hub and of its gateways from the one that an operator wrote.
// Pure. Both run the same program: what is enabled, and where, is all the difference.
//
//   hub        sources, devnode, shreds, index, event numbers; metrics, tpu, indexer, shredstream;
//              grpc on a free port of loopback, for its gateways alone
//   gateway    rpc, websocket, grpc on the shared ports; Solana stream from the hub's grpc

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
