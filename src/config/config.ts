// The one configuration of the service, composed of the rooms' own sections. Thread: main.
// A new section is one import and one line here; everything else is derived from it.
import { isIP } from 'node:net'
import { parseCidr } from '../base/cidr.ts'
import { choice, flag, group, text, texts, type Values } from '../base/fields.ts'
import { chainSection } from '../devnode/config.ts'
import { grpcSection } from '../products/grpc/config.ts'
import { indexerSection } from '../products/indexer/config.ts'
import { metricsSection } from '../products/metrics/config.ts'
import { rpcSection } from '../products/rpc/config.ts'
import { shredstreamSection, sourcePortOf } from '../products/shredstream/config.ts'
import { isAddress, tpuSection } from '../products/tpu/config.ts'
import { websocketSection } from '../products/websocket/config.ts'
import { addressBudgetSection } from '../quota/config.ts'
import { plansSection } from '../subscriptions/plans.ts'
import { checkUpstreams, defaultSet, upstreamsSection } from '../upstream/config.ts'
import { executionSourceFields } from '../upstream/execution/config.ts'

export const configFields = {
  data: text({
    initial: './data',
    doc: 'Folder of the registry, the operator socket and everything else that is kept.',
    check: (value) => (value.trim() === '' ? 'must not be empty' : undefined),
  }),
  logLevel: choice(['debug', 'info', 'warn', 'error', 'silent'], {
    initial: 'info',
    doc: 'Least important log line that is written to stderr.',
  }),
  tls: group('Certificate of every TCP door; read again when the files change.', {
    cert: text({ initial: '', doc: 'PEM file with the certificate chain; empty means plaintext.' }),
    key: text({ initial: '', doc: 'PEM file with the private key of the certificate.' }),
  }),
  allowPlaintext: flag({
    initial: false,
    doc: 'Lets doors listen beyond loopback without TLS, behind a proxy that has it.',
  }),
  trustedProxies: texts({
    initial: [],
    doc: 'CIDRs of proxies whose X-Forwarded-For is believed; empty means the header is ignored.',
    check: (value) =>
      parseCidr(value) !== null ? undefined : `${value} is not a CIDR such as 10.0.0.0/8`,
  }),
  addressBudget: addressBudgetSection,
  chain: chainSection,
  upstreams: upstreamsSection,
  rpc: rpcSection,
  websocket: websocketSection,
  grpc: grpcSection,
  tpu: tpuSection,
  // The product and the source of its events are two rooms under one key.
  metrics: group(metricsSection.doc, { ...metricsSection.fields, ...executionSourceFields }),
  shredstream: shredstreamSection,
  indexer: indexerSection,
  plans: plansSection,
}

/** Frozen. Made by config/load.ts alone. */
export type Config = Values<typeof configFields>

/** Doors that speak UDP: TLS and plaintext rules do not concern them. */
const UDP_DOORS: ReadonlySet<string> = new Set(['shredstream'])

export interface Door {
  readonly name: string
  readonly host: string
  readonly port: number
  readonly udp: boolean
}

/** Every enabled section with a host and a port, in the order of the configuration. */
export function enabledDoors(config: Config): Door[] {
  const doors: Door[] = []
  for (const [name, section] of Object.entries(config)) {
    if (!isDoorSection(section) || !section.enabled) continue
    doors.push({ name, host: section.host, port: section.port, udp: UDP_DOORS.has(name) })
  }
  return doors
}

/** Keys that name where a product's data comes from. */
const SOURCES = ['chain.source', 'metrics.source', 'shredstream.feed'] as const

/** Doors behind each such key. */
const DOORS_OF: Readonly<Record<(typeof SOURCES)[number], readonly string[]>> = {
  'chain.source': ['rpc', 'websocket', 'grpc', 'tpu'],
  'metrics.source': ['metrics'],
  'shredstream.feed': ['shredstream'],
}

/** The key that says where a product's data comes from; '' for a product that has none. */
export function sourceKeyOf(product: string): string {
  return SOURCES.find((key) => DOORS_OF[key].includes(product)) ?? ''
}

/** What opens a product that stays shut. */
export function openingOf(config: Config, product: string): string {
  const key = sourceKeyOf(product)
  // There is no chain here to make shreds of.
  if (key === 'shredstream.feed' && config.chain.source === 'upstream') return `${key}: udp`
  return `${key}: embedded`
}

/** True when something that is enabled needs the embedded Solana chain. */
export function hasChainDoor(config: Config): boolean {
  if (config.chain.source === 'upstream') return false
  const needing = config.shredstream?.feed === 'embedded' ? ['shredstream'] : []
  const names = [...DOORS_OF['chain.source'], ...needing]
  return enabledDoors(config).some(({ name }) => names.includes(name))
}

/**
 * Doors that stay shut: once one real source is configured, an embedded one counts only where its
 * key says so in so many words. `isSet` tells whether somebody set a key.
 */
export function closedDoors(config: Config, isSet: (key: string) => boolean): string[] {
  if (isAllEmbedded(config)) return []
  const embedded = SOURCES.filter((key) => sourcesOf(config).get(key) === 'embedded')
  const shut = embedded.filter((key) => !isSet(key)).flatMap((key) => DOORS_OF[key])
  return config.tpu.upstreams.length === 0 ? shut : shut.filter((door) => door !== 'tpu')
}

/** The source that each such key names, of the sections that are there. */
export function sourcesOf(config: Config): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  for (const key of SOURCES) {
    const [section = '', name = ''] = key.split('.')
    // Reason for the cast: sections belong to their rooms and may be absent.
    const value = (config as Readonly<Record<string, unknown>>)[section]
    const source = (value as Readonly<Record<string, unknown>> | undefined)?.[name]
    if (typeof source === 'string') found.set(key, source)
  }
  return found
}

/** True while no real source is configured; a set of nodes for somebody is one. */
export function isAllEmbedded(config: Config): boolean {
  const isEmbedded = (source: string) => source === 'embedded'
  if (config.tpu.upstreams.length > 0 || Object.keys(config.upstreams ?? {}).length > 0)
    return false
  return [...sourcesOf(config).values()].every(isEmbedded)
}

/** Where the TPU Sender sends: addresses and names of sets; none means the embedded chain. */
export function tpuUpstreamsOf(config: Config): readonly string[] {
  if (config.tpu.upstreams.length > 0) return config.tpu.upstreams
  return config.chain?.source === 'upstream' ? [defaultSet] : []
}

/**
 * What no single field can see: pairs and clashes. Gives one sentence per problem. `isSet` tells
 * whether somebody set a key: what is only a default may shut a door instead.
 */
export function checkConfig(config: Config, isSet: (key: string) => boolean): string[] {
  const problems: string[] = []
  if (config.tls.cert !== '' && config.tls.key === '')
    problems.push('tls.cert is set without tls.key: set both or none')
  if (config.tls.key !== '' && config.tls.cert === '')
    problems.push('tls.key is set without tls.cert: set both or none')
  if (config.metrics.enabled && config.metrics.source !== 'embedded' && config.metrics.path === '')
    problems.push(`metrics.source is ${config.metrics.source}: set metrics.path to its file`)
  return [
    ...problems,
    ...checkUpstreams(config.upstreams ?? {}, { isChain: config.chain?.source === 'upstream' }),
    ...checkTpu(config),
    ...checkIndexer(config),
    ...checkShredstream(config, isSet),
    ...checkDoors(config),
  ]
}

function checkTpu(config: Config): string[] {
  const { enabled, upstreams, tipAccounts } = config.tpu
  if (!enabled) return []
  const problems: string[] = []
  // By its place and not by its text: a mistyped address may hold a key.
  for (const [index, upstream] of upstreams.entries())
    if (!isAddress(upstream) && !Object.hasOwn(config.upstreams ?? {}, upstream))
      problems.push(`tpu.upstreams.${index} is neither an address nor a set of upstreams`)
  if (tpuUpstreamsOf(config).length > 0 && tipAccounts.length === 0)
    problems.push(
      upstreams.length > 0
        ? 'tpu.upstreams is set: set tpu.tipAccounts, too, or real tips go to nobody'
        : 'chain.source is upstream: set tpu.tipAccounts, or real tips go to nobody',
    )
  return problems
}

function checkIndexer({ indexer }: Partial<Config>): string[] {
  if (indexer?.enabled !== true || indexer.engine !== 'clickhouse') return []
  return indexer.url === '' ? ['indexer.engine is clickhouse: set indexer.url to its server'] : []
}

function checkShredstream(
  { chain, shredstream }: Partial<Config>,
  isSet: (key: string) => boolean,
): string[] {
  if (shredstream?.enabled !== true) return []
  const problems: string[] = []
  const isEmbedded = shredstream.feed === 'embedded' && isSet('shredstream.feed')
  if (isEmbedded && chain?.source === 'upstream')
    problems.push('shredstream.feed is embedded and chain.source is upstream: set it to udp')
  if (shredstream.port !== 0 && sourcePortOf(shredstream) === shredstream.port)
    problems.push('shredstream.sourcePort is shredstream.port: give it another one')
  if (shredstream.verify && shredstream.feed !== 'embedded' && shredstream.leaders.length === 0)
    problems.push('shredstream.verify is on without shredstream.leaders: name them')
  return problems
}

function checkDoors(config: Config): string[] {
  const problems: string[] = []
  const seen = new Map<string, string>()
  for (const door of enabledDoors(config)) {
    if (!door.udp && config.tls.cert === '' && !config.allowPlaintext && !isLoopback(door.host))
      problems.push(
        `${door.name}.host ${door.host} is not a loopback address and there is no TLS: ` +
          'set tls.cert and tls.key, or allowPlaintext when a proxy in front has TLS',
      )
    if (door.port === 0) continue
    const address = `${door.udp ? 'udp' : 'tcp'} ${door.host}:${door.port}`
    const other = seen.get(address)
    if (other !== undefined)
      problems.push(`${door.name}.port ${door.port} is taken by ${other}: give it another one`)
    seen.set(address, door.name)
  }
  return problems
}

export function isLoopback(host: string): boolean {
  if (host === 'localhost' || host === '::1' || host === '[::1]') return true
  return isIP(host) === 4 && host.startsWith('127.')
}

function isDoorSection(
  section: unknown,
): section is { enabled: boolean; host: string; port: number } {
  if (typeof section !== 'object' || section === null) return false
  return 'enabled' in section && 'host' in section && 'port' in section
}
