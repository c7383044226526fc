// Renders what a start prints on stdout: the endpoints, their sources, and on the first start the
// credentials with one call per product, ready to copy.
import type { EndpointAddress } from '../../base/running.ts'
import { type Config, isPrivate } from '../config/config.ts'
import type { Service } from '../topology/service.ts'

type Endpoints = Readonly<Record<string, EndpointAddress>>

const protocols: Readonly<Record<string, readonly [plain: string, secure: string]>> = {
  rpc: ['http', 'https'],
  websocket: ['ws', 'wss'],
  grpc: ['grpc', 'grpcs'],
  metrics: ['http', 'https'],
  tpu: ['http', 'https'],
  indexer: ['http', 'https'],
  shredstream: ['udp', 'udp'],
  operator: ['http', 'https'],
}

export interface Start {
  /** The credentials of a first start. */
  readonly demo: Demo | null
  /** True when `demo` exists from an earlier start. */
  readonly hasDemo: boolean
  /** The data folder, where it is not the default one. */
  readonly data: string | null
  /** True when the metrics endpoint serves its page. */
  readonly hasPage: boolean
  /** True when the metrics endpoint requires a token. */
  readonly isMetricsClosed: boolean
  /** The certificate file, where no public authority signed it; null otherwise. */
  readonly ca: string | null
  /** Whole sentences. */
  readonly warnings: readonly string[]
}

export function banner(
  { endpoints, sources }: Pick<Service, 'endpoints' | 'sources'>,
  start: Start,
): string {
  const { demo, hasDemo, data, hasPage, warnings } = start
  const where = data === null ? '' : ` --data ${quoted(data)}`
  const lines = demo === null ? [] : [...credentials(demo), '']
  const width = Math.max(11, ...Object.keys(endpoints).map(({ length }) => length)) + 1
  for (const [name, endpoint] of Object.entries(endpoints))
    lines.push(`${name.padEnd(width)}${urlOf(name, endpoint)}`)
  lines.push(...pages(endpoints, hasPage))
  for (const [key, source] of sources) lines.push(`${key.padEnd(18)}${source}`)
  lines.push(...warnings)
  if (data !== null)
    lines.push('', '# Instead of --data on each command:', `export SLUICE_DATA=${quoted(data)}`)
  if (demo !== null) lines.push('', ...calls(endpoints, where, start))
  else if (hasDemo) lines.push('', ...renewal(endpoints, where))
  return `${lines.join('\n')}\n`
}

export function urlOf(name: string, { host, port, tls }: EndpointAddress): string {
  const [plain, secure] = protocols[name] ?? ['tcp', 'tls']
  return `${tls ? secure : plain}://${host.includes(':') ? `[${host}]` : host}:${port}`
}

function credentials({ token, indexer }: Demo): string[] {
  const lines = [`TOKEN=${token}`]
  if (indexer !== null)
    lines.push(`INDEXER_USER=${indexer.user}`, `INDEXER_PASSWORD=${indexer.password}`)
  return lines
}

/** Pages for a browser. */
function pages({ metrics, indexer }: Endpoints, hasLive: boolean): string[] {
  const lines: string[] = []
  if (metrics !== undefined && hasLive) lines.push(`live page   ${urlOf('metrics', metrics)}/live`)
  if (indexer !== undefined) lines.push(`SQL page    ${urlOf('indexer', indexer)}/play`)
  return lines
}

/** What became of the credentials that an earlier start printed. */
function renewal({ indexer }: Endpoints, where: string): string[] {
  const lines = [
    '# The credentials of demo were shown by the first start and cannot be shown again. New ones:',
    `npx --no -- sluice token rotate demo${where}`,
  ]
  if (indexer !== undefined) lines.push(`npx --no -- sluice indexer rotate demo${where}`)
  return lines
}

/**
 * One call per open product, run from the project's folder. Each uses $TOKEN, so that the token
 * itself is on the screen only once.
 */
function calls(endpoints: Endpoints, where: string, { ca, isMetricsClosed }: Start): string[] {
  const cacert = ca === null ? '' : ` --cacert ${quoted(ca)}`
  const trusted = ca === null ? where : ` --ca ${quoted(ca)}${where}`
  const { rpc, websocket, grpc, metrics, shredstream, tpu, indexer } = endpoints
  const names = indexer === undefined ? 'TOKEN' : 'TOKEN, INDEXER_USER and INDEXER_PASSWORD'
  const lines = [`# With ${names} set as above:`]
  if (rpc !== undefined) lines.push(rpcCall(urlOf('rpc', rpc) + cacert))
  if (websocket !== undefined) lines.push(tokenCall('call ws getVersion', trusted))
  if (grpc !== undefined) lines.push(tokenCall('call grpc GetVersion', trusted))
  if (metrics !== undefined) {
    const token = isMetricsClosed ? ' -H "x-token: $TOKEN"' : ''
    lines.push(`curl -sS ${urlOf('metrics', metrics)}/v1/status${cacert}${token}`)
  }
  if (tpu !== undefined) lines.push(tpuCall(urlOf('tpu', tpu) + cacert))
  if (indexer !== undefined) lines.push(indexerCall(urlOf('indexer', indexer) + cacert))
  if (shredstream !== undefined)
    lines.push(`npx --no -- sluice shreds listen 20010 --for demo${where}`)
  lines.push(
    '# To keep them for sluice query, tail and call, in a file that only you can read:',
    `npx --no -- sluice context save demo${where}`,
  )
  return lines
}

function rpcCall(url: string): string {
  return (
    `curl -sS ${url} -H "x-token: $TOKEN" -H 'content-type: application/json' ` +
    `-d '{"jsonrpc":"2.0","id":1,"method":"getVersion"}'`
  )
}

/** Needs no token: a tip to one of these accounts authorizes a transaction. */
function tpuCall(url: string): string {
  return (
    `curl -sS ${url} -H 'content-type: application/json' ` +
    `-d '{"jsonrpc":"2.0","id":1,"method":"getTipAccounts"}'`
  )
}

function indexerCall(url: string): string {
  return (
    `curl -sS ${url} -u "$INDEXER_USER:$INDEXER_PASSWORD" -H "x-token: $TOKEN" ` +
    `-d 'SELECT count() AS transactions, max(slot) AS slot FROM transactions FORMAT JSON'`
  )
}

/** The token goes through a pipe: arguments are visible to every user of the machine. */
function tokenCall(words: string, where: string): string {
  return `echo "$TOKEN" | npx --no -- sluice ${words} --token-file -${where}`
}

/** As one word of a shell. */
function quoted(path: string): string {
  return /^[\w./@+-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`
}

// Provisions the subscription `demo` at the first start on an empty registry.
// Only where it gives access to nothing real: every endpoint on loopback, every source embedded.
// The secrets exist in memory until the banner has printed them, once.

export interface Demo {
  readonly token: string
  readonly indexer: { readonly user: string; readonly password: string } | null
}

export const demoLabel = 'demo'

/** The credentials provisioned, or null when this is not a first start. */
export async function firstStart(config: Config, service: Service): Promise<Demo | null> {
  // In a cluster the registry is everybody's: subscriptions are added by the operator.
  if (config.cluster.url !== '') return null
  if (!isPrivate(config) || service.store.list().length > 0) return null
  const added = await service.store.add(
    { label: demoLabel, products: ['bundle', 'indexer', 'shredstream'], plan: 'standard' },
    { who: 'first start', reason: 'a subscription to try the service with' },
  )
  if (!added.ok) return null
  service.refresh()
  return { token: added.value.token, indexer: added.value.indexer ?? null }
}
