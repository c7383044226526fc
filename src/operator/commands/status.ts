// `sluice status`: shows the running server and its products, through the operator socket.
// Exits 1 when no server runs. With --output json it is the server's answer alone.
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
import type { ServerStatus } from '../topology/service.ts'
import { askServer } from './ask-server.ts'
import { printReport, recordOf, tableOf } from './output.ts'
import { type Call, hasSwitch, isJson, type Report, type Verb } from './verb.ts'
import { watchScreen } from './watch-screen.ts'

/** Time between the two samples that a rate is computed from. */
const sampleMs = 1_000

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
    text(row.name),
    text(row.region),
    text(row.state),
    text(row.slot),
    text(row.lagSlots),
    text(row.p50Ms, ' ms'),
    text(row.p99Ms, ' ms'),
    text(row.requests),
    text(row.errors),
    percent(row.share),
    percent(firstShare),
    text(row.reason),
  ]
}

function percent(share: number | null | undefined): string {
  return share == null ? '' : `${(share * 100).toFixed(1)} %`
}
