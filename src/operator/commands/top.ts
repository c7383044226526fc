// `sluice top`: the chain's and every product's figures on one screen.
// From /v1/status, /v1/blocks, /v1/top and /metrics; rates and latencies are those of the last
// samples. On a terminal it refreshes every second until q or Ctrl-C, else it prints one frame.
import { accept, messageOf, type Outcome, refuse } from '../../base/errors.ts'
import { MetricsRest, ServiceError, verdictOf } from '../../client/client.ts'
import { ExpositionText } from '../../client/exposition-text.ts'
import { type FigureSamples, productFigures, quantileMs } from '../../client/product-figures.ts'
import { knownCredentials, tokenFlags } from './credentials.ts'
import { contextFlag, findEndpoint } from './endpoint-url.ts'
import { type TopFigures, topText } from './top-text.ts'
import { hasSwitch, isJson, type Report, type Verb } from './verb.ts'
import { watchScreen } from './watch-screen.ts'

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
    {
      name: 'once',
      doc: 'Print one frame and exit, as it does when its output is not a terminal.',
    },
    { name: 'url', value: 'url', doc: 'The metrics service [the server of the data folder].' },
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
  if (error instanceof ServiceError && error.code === 401) {
    const advice = hasToken
      ? `${url} does not accept this token`
      : `${url} wants a token: name a file that contains one with --token-file`
    return refuse('unauthenticated', 'unauthorized', advice)
  }
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
