// `sluice top`: the chain's and every product's figures on one screen.
// From /v1/status, /v1/blocks, /v1/top and /metrics; rates and latencies are those of the last
// samples. On a terminal it refreshes every second until q or Ctrl-C, else it prints one frame.
import { accept, messageOf, type Outcome, refuse } from '../../base/errors.ts'
import {
  type BlockRow,
  MetricsRest,
  ServiceError,
  type Status,
  type TopAccesses,
  verdictOf,
} from '../../client/client.ts'
import { ExpositionText } from '../../client/exposition-text.ts'
import {
  type FigureSamples,
  type ProductFigures,
  productFigures,
  quantileMs,
  rateText,
} from '../../client/product-figures.ts'
import { contextFlag, findEndpoint, knownCredentials, noToken, tokenFlags } from './credentials.ts'
import { inColour, safeText, tableOf, watchScreen } from './output.ts'
import { flagTable, hasSwitch, isJson, type Report, type Verb } from './verb.ts'

/** Time between the two samples of a single frame. */
const sampleMs = 1000
/** Samples over which rates and latencies are computed while it refreshes: ten seconds. */
const windowSamples = 10
const askMsMax = 5000
const blocksShown = 120
const topShown = 5
/** Width of a frame that is not for a terminal. */
const pipedColumns = 100

export const topVerb: Verb = {
  words: ['top'],
  summary: 'Show TPS, contention, hot keys and every product, refreshed each second; q ends it.',
  examples: ['top', 'top --once --json'],
  flags: [
    ...flagTable(`
    --once       Print one frame and exit, as it does when its output is not a terminal.
    --url <url>  The metrics service [the server of the data folder].`),
    contextFlag,
    ...tokenFlags,
  ],
  async run(call) {
    const found = await findEndpoint(call, 'metrics')
    if (!found.ok) return found
    const { url, context } = found.value
    const known = knownCredentials(call, context)
    if (!known.ok) return known
    const sampler = new Sampler(url, known.value.token)
    const isOnce = hasSwitch(call, 'once') || isJson(call) || process.stdout.isTTY !== true
    try {
      await sampler.sample()
      if (isOnce) return accept(await oneFrame(sampler))
      await watchScreen(async () => {
        const figures = await sampler.sample()
        return (width) => topText(figures, width)
      })
    } catch (error) {
      return failureOf(error, url, known.value.token !== '')
    }
    return accept({ json: null, text: '', isPrinted: true })
  },
}

async function oneFrame(sampler: Sampler): Promise<Report> {
  await new Promise((done) => setTimeout(done, sampleMs))
  const figures = await sampler.sample()
  const width = process.stdout.columns ?? pipedColumns
  return { json: jsonOf(figures), text: topText(figures, width) }
}

function failureOf(error: unknown, url: string, hasToken: boolean): Outcome<never> {
  if (error instanceof ServiceError && error.code === 401) return noToken(url, hasToken)
  if (error instanceof ServiceError)
    return refuse('unavailable', 'no-answer', `${url} answers: ${error.message}`)
  return refuse('unavailable', 'no-answer', `no server answers at ${url}: ${messageOf(error)}`)
}

/** Asks the service for its figures, and keeps the last meters for differences. */
class Sampler {
  readonly #url: string
  readonly #rest: MetricsRest
  readonly #samples: { readonly meters: ExpositionText; readonly atMs: number }[] = []

  constructor(url: string, token: string) {
    this.#url = url.replace(/\/+$/, '')
    this.#rest = new MetricsRest({
      origin: this.#url,
      ...(token === '' ? {} : { token }),
      fetch: (path, init) => fetch(path, { ...init, signal: AbortSignal.timeout(askMsMax) }),
    })
  }

  async sample(): Promise<TopFigures> {
    const [status, blocks, top, meters] = await Promise.all([
      this.#rest.status(),
      this.#rest.blocks(blocksShown),
      this.#rest.topAccesses(),
      this.#meters(),
    ])
    const samples = this.#take(meters)
    const lags = meters.values('index_lag_seconds')
    return {
      url: this.#url,
      status,
      block: blocks.at(-1) ?? null,
      tps: blocks.map(({ tps }) => tps),
      finalizeP50Ms: finalizeP50Ms(samples),
      gaps: meters.sum('source_gaps_total'),
      products: productFigures(samples),
      indexLagSecs: lags.length === 0 ? null : Math.max(...lags),
      loopLagP99Ms: quantileMs(samples, 'event_loop_lag_seconds', 0.99),
      memoryBytes: meters.sum('process_resident_memory_bytes'),
      top,
    }
  }

  async #meters(): Promise<ExpositionText> {
    const answer = await fetch(`${this.#url}/metrics`, { signal: AbortSignal.timeout(askMsMax) })
    if (answer.status !== 200) throw new ServiceError(answer.status, `HTTP ${answer.status}`)
    return new ExpositionText(await answer.text())
  }

  /** Adds a sample; returns it beside the oldest one of the window. */
  #take(meters: ExpositionText): FigureSamples {
    const now = { meters, atMs: performance.now() }
    this.#samples.push(now)
    if (this.#samples.length > windowSamples + 1) this.#samples.shift()
    const before = this.#samples[0]!
    // The first sample has no difference: its rates are 0.
    const seconds = Math.max(0.001, (now.atMs - before.atMs) / 1000)
    return { before: before.meters, now: meters, seconds }
  }
}

/** Of the blocks finalized between the samples; of all of them when there were none. */
function finalizeP50Ms(samples: FigureSamples): number | null {
  const recent = quantileMs(samples, 'finalize_seconds', 0.5)
  if (recent !== null) return recent
  return quantileMs({ before: new ExpositionText(''), now: samples.now }, 'finalize_seconds', 0.5)
}

function jsonOf(figures: TopFigures): Readonly<Record<string, unknown>> {
  const { block, tps, top, ...rest } = figures
  const band = block === null ? null : verdictOf(block)
  return {
    ...rest,
    block: block === null ? null : { ...block, band },
    top:
      top === null
        ? null
        : { account: top.account.slice(0, topShown), storage: top.storage.slice(0, topShown) },
  }
}

// Nothing is wider than the terminal: facts flow into lines, and a table drops its least important
// columns.

export interface TopFigures {
  readonly url: string
  readonly status: Status
  /** The newest block; null before the first. */
  readonly block: BlockRow | null
  /** TPS of the last blocks, oldest first. */
  readonly tps: readonly number[]
  readonly finalizeP50Ms: number | null
  readonly gaps: number
  readonly products: readonly ProductFigures[]
  /** Null without the indexer. */
  readonly indexLagSecs: number | null
  readonly loopLagP99Ms: number | null
  readonly memoryBytes: number
  readonly top: TopAccesses | null
}

/** A short text, and the word that gives it its colour. */
interface Fact {
  readonly text: string
  readonly state?: string
}

const topRows = 5
const sparks = '▁▂▃▄▅▆▇█'
const gapBetween = 3

export function topText(figures: TopFigures, width: number): string {
  const { status } = figures
  const head: Fact[] = [
    { text: 'sluice top' },
    { text: figures.url },
    { text: status.status, state: status.status === 'healthy' ? 'ok' : 'degraded' },
    { text: `last event ${status.last_event_age_secs} s ago` },
  ]
  return [
    flowing(head, width),
    flowing(chainFacts(figures), width),
    ...(figures.tps.length > 1 ? [`TPS ${sparkline(figures.tps, width - 4)}`] : []),
    '',
    productsText(figures.products, width),
    flowing(processFacts(figures), width),
    '',
    ...accessLines(figures.top, width),
  ].join('\n')
}

function chainFacts({ block, finalizeP50Ms, gaps }: TopFigures): Fact[] {
  if (block === null) return [{ text: 'waiting for the first block' }]
  const isEmpty = block.total_txn_count === 0
  const efficiency = block.parallel_efficiency_pct
  const band = verdictOf(block)
  return [
    { text: `block ${block.block_number}` },
    { text: `TPS ${block.tps}` },
    isEmpty
      ? { text: 'no transactions' }
      : {
          text: `efficiency ${efficiency.toFixed(1)} %${band === null ? '' : ` (${band})`}`,
          ...(band === null ? {} : { state: band }),
        },
    { text: `contended storage slots ${block.contended_slot_count}` },
    { text: `of them written ${block.written_contended_slot_count}` },
    { text: `critical path ${block.critical_path_txn_count} of ${block.total_txn_count}` },
    { text: `wall ${msText(block.block_wall_time_ns / 1e6)}` },
    { text: `finalize p50 ${msText(finalizeP50Ms)}` },
    { text: `gaps ${gaps}`, ...(gaps > 0 ? { state: 'warn' } : {}) },
  ]
}

function processFacts({ indexLagSecs, loopLagP99Ms, memoryBytes, status }: TopFigures): Fact[] {
  return [
    ...(indexLagSecs === null ? [] : [{ text: `index lag ${indexLagSecs.toFixed(1)} s` }]),
    { text: `loop lag p99 ${msText(loopLagP99Ms)}` },
    { text: `memory ${(memoryBytes / 1024 / 1024).toFixed(0)} MiB` },
    { text: `up ${status.uptime_secs} s` },
  ]
}

/** Columns in their order; a higher number is dropped earlier. */
const columns: readonly {
  readonly title: string
  readonly drop: number
  cell(product: ProductFigures): string
}[] = [
  { title: 'product', drop: 0, cell: ({ name }) => name },
  { title: 'state', drop: 5, cell: ({ state }) => state },
  { title: 'rate', drop: 1, cell: ({ rate, unit }) => rateText(rate, unit) },
  { title: 'p50', drop: 4, cell: ({ p50Ms }) => msText(p50Ms) },
  { title: 'p99', drop: 2, cell: ({ p99Ms }) => msText(p99Ms) },
  { title: 'errors', drop: 3, cell: ({ errors }) => String(errors) },
  { title: 'refused', drop: 6, cell: ({ refused }) => String(refused) },
  { title: 'open', drop: 7, cell: ({ open }) => String(open ?? '') },
]

function productsText(products: readonly ProductFigures[], width: number): string {
  const kept = [...columns]
  const widthOf = () =>
    kept
      .map(({ title, cell }) =>
        Math.max(title.length, ...products.map((product) => cell(product).length)),
      )
      .reduce((sum, column) => sum + column + 2, -2)
  while (kept.length > 1 && widthOf() > width) {
    const last = Math.max(...kept.map(({ drop }) => drop))
    kept.splice(
      kept.findIndex(({ drop }) => drop === last),
      1,
    )
  }
  const rows = products.map((product) => kept.map(({ cell }) => cell(product)))
  const head = kept.map(({ title }) => title)
  return tableOf(head, rows, 'No product is enabled.')
}

/** Keys are shortened where the whole ones do not fit: their ends tell them apart. */
function accessLines(top: TopAccesses | null, width: number): string[] {
  if (top === null) return []
  const rows = [
    ...top.account
      .slice(0, topRows)
      .map(({ key, ...counts }) => ({ kind: 'account', keys: [key], ...counts })),
    ...top.storage
      .slice(0, topRows)
      .map(({ key, ...counts }) => ({ kind: 'storage', keys: key, ...counts })),
  ]
  const counts = rows.map(({ count, error }) => (error === 0 ? `${count}` : `${count} (-${error})`))
  const countWidth = Math.max(0, ...counts.map((text) => text.length))
  const lines = rows.map(({ kind, keys }, index) => {
    const lead = `  ${kind}  ${counts[index]!.padStart(countWidth)}  `
    const whole = `${lead}${keys.join(' ')}`
    const fitting = whole.length <= width ? whole : `${lead}${keys.map(shortened).join(' ')}`
    return clipped(safeText(fitting), width)
  })
  const bound = rows.some(({ error }) => error > 0) ? '; (-n): n or fewer too many' : ''
  return [clipped(`most accessed since the last 5-minute mark${bound}`, width), ...lines]
}

function shortened(hex: string): string {
  return hex.length <= 15 ? hex : `${hex.slice(0, 8)}…${hex.slice(-6)}`
}

/** Facts side by side, in as many lines as they need; a longer one is clipped. */
function flowing(facts: readonly Fact[], width: number): string {
  const lines: string[] = []
  let line = ''
  let used = 0
  for (const { text, state } of facts) {
    const plain = clipped(safeText(text), width)
    const shown = state === undefined ? plain : inColour(state, plain, process.stdout)
    if (used > 0 && used + gapBetween + plain.length > width) {
      lines.push(line)
      used = 0
    }
    line = used === 0 ? shown : `${line}${' '.repeat(gapBetween)}${shown}`
    used += plain.length + (used === 0 ? 0 : gapBetween)
  }
  return [...lines, line].join('\n')
}

function clipped(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`
}

/** The newest values as bars between 0 and the highest. */
function sparkline(values: readonly number[], width: number): string {
  const shown = values.slice(-Math.max(1, width))
  const highest = Math.max(1, ...shown)
  return shown.map((value) => sparks[Math.round((value / highest) * (sparks.length - 1))]).join('')
}

function msText(ms: number | null): string {
  if (ms === null) return '-'
  if (ms >= 1000) return `${(ms / 1000).toFixed(2)} s`
  return `${ms.toFixed(ms < 10 ? 2 : 0)} ms`
}
