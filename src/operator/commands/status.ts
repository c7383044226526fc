// `sluice status`, `products`, `tips`, `tip-accounts`, `node`: what the running server reports and
// does, through the operator socket.
import { resolve } from 'node:path'
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { ExpositionText } from '../../client/exposition-text.ts'
import {
  commandWords,
  type FigureSamples,
  type ProductSpec,
  products,
  rateOf,
  rateText,
} from '../../client/product-figures.ts'
import { type Config, enabledEndpoints, setsWithoutGeyser, sourcesOf } from '../config/config.ts'
import { userName } from '../config/load.ts'
import type { Components } from '../topology/lifecycle.ts'
import type { ServerStatus } from '../topology/service.ts'
import type { DrainAnswer } from '../topology/upstream.ts'
import { printReport, recordOf, tableOf, timeOf, watchScreen } from './output.ts'
import { askServer, noServer } from './registry.ts'
import {
  type Call,
  flagOf,
  flagTable,
  hasSwitch,
  isJson,
  misuse,
  numberOf,
  type PositionalSpec,
  type Report,
  type Verb,
} from './verb.ts'

/** Time between the two samples that a rate is computed from. */
const sampleMs = 1_000

/** Exits 1 when no server runs. With --output json it is the server's answer alone. */
export const statusVerb: Verb = {
  words: ['status'],
  api: 'read',
  summary: 'Show state, rate, errors and lag of every product; exit 1 when no server runs.',
  examples: ['status', 'status --watch', 'status --data /var/lib/sluice --json'],
  flags: [{ name: 'watch', doc: 'Refresh every second until q or Ctrl-C.' }],
  async run(call) {
    if (!hasSwitch(call, 'watch')) return report(call)
    if (isJson(call) || process.stdout.isTTY !== true) return repeat(call)
    await watchScreen(async () => {
      const shown = await report(call)
      const text = shown.ok ? shown.value.text : shown.refusal.message
      return () => text
    })
    return accept({ json: null, text: '', isPrinted: true })
  },
}

async function report(call: Call): Promise<Outcome<Report>> {
  const data = resolve(call.loaded.config.data)
  const answer = await askServer(data, 'status')
  if (answer.ok) {
    const state = answer.value as Readonly<Record<string, unknown>>
    const text = isJson(call) ? '' : statusText(state, await sample(data))
    return accept({ json: { running: true, ...state }, text })
  }
  if (answer.reason !== 'no-server') return refuse('unavailable', 'no-answer', answer.message)
  return accept({
    json: { running: false, data },
    text: `No server runs on ${data}. Start it with npm start, or set --data.`,
    exit: 1,
  })
}

/** Where there is no screen: one report after the other, until the server ends. */
async function repeat(call: Call): Promise<Outcome<Report>> {
  for (;;) {
    const next = await report(call)
    if (!next.ok || next.value.exit === 1) return next
    printReport(next.value, isJson(call) ? 'json' : 'table')
    await new Promise((done) => setTimeout(done, sampleMs))
  }
}

/** Two samples of the meters; null when the server does not report them. */
async function sample(data: string): Promise<FigureSamples | null> {
  const before = await askServer(data, 'meters')
  if (!before.ok) return null
  const beganMs = performance.now()
  await new Promise((resolve) => setTimeout(resolve, sampleMs))
  const now = await askServer(data, 'meters')
  if (!now.ok) return null
  return {
    before: new ExpositionText(String(before.value)),
    now: new ExpositionText(String(now.value)),
    seconds: (performance.now() - beganMs) / 1000,
  }
}

/** The server's answer; what an older one does not send is shown as empty. */
type ServerState = Sent<ServerStatus>
type Sent<T> = T extends string
  ? string
  : T extends readonly unknown[] | Readonly<Record<string, object>>
    ? { readonly [Name in keyof T]: Sent<T[Name]> }
    : T extends object
      ? { readonly [Name in keyof T]?: Sent<T[Name]> }
      : T
type Rows<Name extends keyof ServerState> = NonNullable<ServerState[Name]>
/** The stream of a set of nodes. */
type StreamRow = NonNullable<Rows<'geyser'>[string]>
type GatewayRow = Rows<'gateways'>[number]

/** The server, a table of its products, and those of its nodes and gateways if there are any. */
export function statusText(state: ServerState, samples: FigureSamples | null): string {
  const { version, pid, uptimeSecs, doors = {}, sources = {}, chain, registry } = state
  const facts: [string, string][] = [
    [
      'server',
      `${version ?? 'unknown version'}, process ${pid}, up ${durationOf(uptimeSecs ?? 0)}`,
    ],
    ['sources', pairsOf(sources)],
  ]
  if (chain != null) facts.push(['chain', pairsOf(chain)])
  const streams = Object.entries(state.geyser ?? {}).map(streamText)
  if (streams.length > 0) facts.push(['streams', streams.join('; ')])
  if (registry?.isRolledBack === true)
    facts.push(['registry', 'older than the one in effect: see Backup in docs/OPERATING.md'])
  if (state.usagePush !== undefined) facts.push(['usage push', pushText(state.usagePush)])
  if (state.notices !== undefined) facts.push(['webhooks', pushText(state.notices)])
  const parts = [recordOf(facts), productsTable(doors, samples)]
  const { upstreams = [], geyser = {} } = state
  const shares: NonNullable<StreamRow['nodes']> = Object.assign(
    {},
    ...Object.values(geyser).map(({ nodes }) => nodes),
  )
  const head = 'node region state slot lag p50 p99 calls errors share first reason'.split(' ')
  const rows = upstreams.map((row) => nodeRow(row, shares[row.name ?? '']?.firstShare))
  if (rows.length > 0) parts.push(tableOf(head, rows, ''))
  const { gateways = [] } = state
  const titles = ['gateway', 'state', 'seen', 'process', 'restarts']
  if (gateways.length > 0) parts.push(tableOf(titles, gateways.map(gatewayRow), ''))
  return parts.join('\n\n')
}

/** Where usage is pushed to, and what waits there for how long. */
export function pushText({
  to,
  rows = 0,
  ageMs = 0,
  problem,
  lostRows,
}: Rows<'usagePush'>): string {
  const waiting =
    rows === 0 ? '' : `, ${rows} rows wait for ${durationOf(Math.floor(ageMs / 1000))}`
  const lost = lostRows ? `, ${lostRows} rows lost: usage.push.rowsMax was reached` : ''
  return `${to}${waiting}${problem == null ? '' : ` (${problem})`}${lost}`
}

function streamText([set, { node, nodes = {}, slotMs }]: readonly [string, StreamRow]): string {
  const open = Object.keys(nodes).filter((name) => nodes[name]!.isOpen)
  const from = `from ${open.join(', ') || (node ?? 'no node')}`
  return `${set} ${from}${slotMs === undefined ? '' : `, slots of ${Math.round(slotMs)} ms`}`
}

/** One row per product; without samples the state and the address alone. */
function productsTable(endpoints: Rows<'doors'>, samples: FigureSamples | null): string {
  const head = ['product', 'state', 'address', 'rate', 'errors', 'refused', 'open', 'lag']
  const rows = Object.entries(products).map(([name, spec]) => {
    const address = endpoints[name]
    if (address === undefined) return [name, 'disabled', '', '', '', '', '', '']
    const { host, port } = address
    const where = `${host?.includes(':') ? `[${host}]` : host}:${port}`
    return [name, ...figuresOf([name, spec], where, samples)]
  })
  return tableOf(head, rows, '')
}

function figuresOf(
  [name, spec]: readonly [string, ProductSpec],
  where: string,
  samples: FigureSamples | null,
): string[] {
  if (samples === null) return ['open', where, '', '', '', '', '']
  const { now } = samples
  const { unit, lag } = commandWords[name]!
  return [
    spec.trouble(now) ?? 'open',
    where,
    rateText(rateOf(spec.total, samples), unit),
    String(spec.errors(now)),
    String(spec.refused(now)),
    String(spec.open(now) ?? ''),
    lag(now),
  ]
}

function gatewayRow({ name, state, seenMs, pid, restarts }: GatewayRow): string[] {
  const seen = seenMs == null ? '' : `${(seenMs / 1000).toFixed(1)} s ago`
  return [name ?? '', state ?? '', seen, `${pid ?? ''}`, `${restarts ?? ''}`]
}

function pairsOf(values: Readonly<Record<string, unknown>>): string {
  const pairs = Object.entries(values).map(([name, value]) => `${name} ${value}`)
  return pairs.join(', ')
}

function durationOf(seconds: number): string {
  const parts = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3_600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'min'],
    [seconds % 60, 's'],
  ] as const
  const first = parts.findIndex(([count]) => count > 0)
  const shown = first < 0 ? parts.slice(-1) : parts.slice(first, first + 2)
  return shown.map(([count, unit]) => `${count} ${unit}`).join(' ')
}

function nodeRow(row: Rows<'upstreams'>[number], firstShare: number | null | undefined): string[] {
  const text = (value: unknown, unit = '') => (value == null ? '' : `${value}${unit}`)
  return [
    ...[row.name, row.region, row.state, row.slot, row.lagSlots].map((cell) => text(cell)),
    ...[row.p50Ms, row.p99Ms].map((ms) => text(ms, ' ms')),
    ...[row.requests, row.errors].map((count) => text(count)),
    percent(row.share),
    percent(firstShare),
    text(row.reason),
  ]
}

function percent(share: number | null | undefined): string {
  return share == null ? '' : `${(share * 100).toFixed(1)} %`
}

interface Address {
  readonly host: string
  readonly port: number
}

/**
 * Product, name, purpose, authorization; then the configuration section of its endpoint and the key
 * of its source, or a fixed state.
 */
const catalogue = `
bundle | Bundle: RPC | JSON-RPC 2.0 over HTTP | token | rpc | chain.source
bundle | Bundle: WebSocket | streaming subscriptions | token | websocket | chain.source
bundle | Bundle: gRPC | streaming interface (geyser.Geyser) | token | grpc | chain.source
indexer | Indexer | queryable database | x-token plus database credentials | indexer
shredstream | ShredStream Raw | UDP push of raw shreds to one IP:port | destination address | \
  shredstream | shredstream.feed
tpu | TPU Sender | transaction submission gated by a tip | open access, tip required | \
  tpu | chain.source
shredstream-decoded | ShredStream Decoded | decoded shreds | to be confirmed | | | coming soon
dedicated-node | Dedicated Node | single-customer node | arranged individually at provisioning | \
  | | arranged individually
metrics | Metrics service | event stream, REST, health, scraper, JSON-RPC | \
  open, or any token by metrics.auth | metrics | metrics.source`

export const productsVerb: Verb = {
  words: ['products'],
  api: 'read',
  summary: 'Show the catalogue: authorization, state, address and source of every product.',
  examples: ['products', 'products --json'],
  async run({ loaded }) {
    const products = productsOf(loaded.config, await liveEndpoints(loaded.config.data))
    const head = ['product', 'name', 'authorization', 'state', 'address', 'source'] as const
    const rows = products.map((one) => head.map((name) => one[name] ?? ''))
    const warnings = setsWithoutGeyser(loaded.config)
    const text = [tableOf(head, rows, ''), ...warnings].join('\n')
    return accept({ json: { products, ...(warnings.length > 0 && { warnings }) }, text })
  },
}

/** The addresses of a running server's endpoints; empty when none runs. */
async function liveEndpoints(data: string): Promise<ReadonlyMap<string, Address>> {
  const answer = await askServer(data, 'status')
  if (!answer.ok) return new Map()
  const { doors = {} } = answer.value as { doors?: Readonly<Record<string, Address>> }
  return new Map(Object.entries(doors))
}

function productsOf(config: Config, live: ReadonlyMap<string, Address>) {
  const configured = enabledEndpoints(config).map((endpoint) => [endpoint.name, endpoint] as const)
  const endpoints = new Map<string, Address>([...configured, ...live])
  const sources = sourcesOf(config)
  const rows = catalogue.trim().split('\n')
  return rows.map((row) => {
    const cells = row.split('|').map((cell) => cell.trim())
    const [product = '', name = '', purpose = '', authorization = ''] = cells
    const [, , , , section = '', source = '', state] = cells
    const endpoint = endpoints.get(section)
    return {
      ...{ product, name, purpose, authorization },
      state: state ?? 'available',
      address: endpoint === undefined ? null : `${endpoint.host}:${endpoint.port}`,
      source: sources.get(source) ?? null,
    }
  })
}

/** As the server reports it; counts are since its start. */
type TipsReport = ReturnType<NonNullable<Components['tpu']>['report']>

const lastMax = 1_000

export const tipsVerb: Verb = {
  words: ['tips'],
  api: 'read',
  summary: 'Show what the TPU Sender accepted, rejected by reason, and saw land.',
  examples: ['tips --last 50'],
  flags: flagTable(`--last <n 0..${lastMax}>  Outcomes to show, at most ${lastMax} [20].`),
  async run(call) {
    const { data } = call.loaded.config
    const answer = await askServer(data, 'tips', { count: numberOf(call, 'last', 20) })
    if (!answer.ok) return noServer(data, answer)
    if (answer.value === null)
      return refuse('unavailable', 'no-tpu', 'the TPU Sender is disabled on this server')
    // Reason for the cast: the server is of the same build.
    const report = answer.value as TipsReport
    return accept({ json: report, text: tipsText(report) })
  },
}

export const tipAccountsVerb: Verb = {
  words: ['tip-accounts'],
  api: 'read',
  summary: 'Show the accounts that tips go to.',
  examples: ['tip-accounts'],
  async run({ loaded }) {
    const { data, tpu } = loaded.config
    const answer = await askServer(data, 'tip-accounts')
    if (!answer.ok && answer.reason !== 'no-server')
      return refuse('unavailable', 'no-answer', answer.message)
    const { tipAccounts } = answer.ok
      ? (answer.value as { tipAccounts: readonly string[] })
      : { tipAccounts: tpu.tipAccounts }
    if (tipAccounts.length > 0)
      return accept({ json: { tipAccounts }, text: tipAccounts.join('\n') })
    return refuse(
      'unavailable',
      'no-server',
      `tpu.tipAccounts is empty and no TPU Sender runs on ${data}; a running one creates its own`,
    )
  },
}

function tipsText(report: TipsReport): string {
  const { accepted, landed, expired, failed, duplicates, tipLamports, rejected, last } = report
  const reasons = Object.entries(rejected).filter(([, times]) => times > 0)
  const summary = recordOf([
    ['accepted', String(accepted)],
    ['landed', accepted === 0 ? '0' : `${landed} (${((100 * landed) / accepted).toFixed(1)} %)`],
    ['expired', String(expired)],
    ['failed', String(failed)],
    ['duplicates', String(duplicates)],
    ['tips landed', `${tipLamports} lamports`],
    ['rejected', reasons.map(([reason, times]) => `${reason} ${times}`).join(', ') || '0'],
  ])
  const head = ['received', 'outcome', 'reason', 'lamports', 'slot', 'fee payer', 'signature']
  const rows = last.map((row) => [
    timeOf(row.receivedAtMs),
    row.outcome,
    row.reason,
    row.lamports,
    row.landedSlot === 0 ? '' : String(row.landedSlot),
    row.feePayer,
    row.signature,
  ])
  return `${summary}\n\n${tableOf(head, rows, 'No outcomes yet.')}`
}

const nodePositionals: readonly PositionalSpec[] = [
  { name: 'set', doc: 'Its set, such as default.' },
  { name: 'node', doc: 'Its number, as in `sluice status`.' },
]
const nodeFlags = [
  { name: 'reason', value: 'text', doc: 'Why; shown in status and kept in the log.' },
] as const

export const nodeVerbs: readonly Verb[] = [
  {
    words: ['node', 'drain'],
    api: 'change',
    summary: 'Take a node out of the rotation; calls in flight end there. Survives a restart.',
    examples: ['node drain default 2 --reason "upgrade to 4.3"'],
    positionals: nodePositionals,
    flags: nodeFlags,
    run: (call) => drainNode(call, true),
  },
  {
    words: ['node', 'resume'],
    api: 'change',
    summary: 'Let a drained node return to the rotation.',
    examples: ['node resume default 2'],
    positionals: nodePositionals,
    flags: nodeFlags,
    run: (call) => drainNode(call, false),
  },
]

async function drainNode(call: Call, isDrained: boolean): Promise<Outcome<Report>> {
  const [set = '', number = ''] = call.positionals
  if (!/^[1-9]\d{0,5}$/.test(number)) return misuse('<node> must be the number of a node, from 1')
  const { data } = call.loaded.config
  const request = {
    node: `${set}/${number}`,
    isDrained,
    who: call.who ?? userName(),
    reason: flagOf(call, 'reason') ?? '',
  }
  const answer = await askServer(data, 'drain', request)
  if (!answer.ok) return noServer(data, answer)
  // Reason for the cast: the server is of the same build.
  const done = answer.value as DrainAnswer
  if ('problem' in done) return refuse('rejected', 'not-drained', done.problem)
  const { node, state, waiting } = done
  const text = isDrained
    ? `${node} is drained: it gets no new calls. Calls in flight: ${waiting}.`
    : `${node} is ${state}: it is in the rotation again once it is up.`
  return accept({ json: done, text })
}
