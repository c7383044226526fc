// The operator's view: one row per product from `/metrics`, every two seconds, by difference.
// Thread: browser. It folds away when `/metrics` cannot be read; `metrics.page: stream` hides it.
import { ExpositionText } from '../client/exposition-text.ts'
import { enabledProducts, products, quantileMs, rateOf } from '../client/product-figures.ts'
import { byId, FixedTable, setText } from './dom.ts'
import { millis, short } from './format.ts'

const askMs = 2_000

/** What a product without trouble shows beside its name. */
const states: Readonly<Record<string, (now: ExpositionText) => string>> = {
  rpc: upstreams,
  websocket: upstreams,
  grpc: upstreams,
  tpu: (now) => `${many(now.sum('tpu_upstreams_up'), 'sender')} up`,
  indexer: (now) => `${secondsOld(now, 'index_lag_seconds')} behind`,
  shredstream: () => 'worker up',
  metrics: (now) => `event ${secondsOld(now, 'source_event_age_seconds')} old`,
}

function upstreams(now: ExpositionText): string {
  const nodes = now.values('upstream_up')
  return nodes.length === 0 ? '' : `${now.sum('upstream_up')} of ${many(nodes.length, 'node')} up`
}

function many(count: number, name: string): string {
  return `${count} ${name}${count === 1 ? '' : 's'}`
}

function secondsOld(now: ExpositionText, name: string): string {
  return `${short(now.sum(name))} s`
}

const heads = ['product', 'state', 'per s', 'p50 ms', 'p99 ms', 'errors/s', 'refused/s', 'open']

export class Endpoints {
  readonly everyMs = 500
  readonly #section = byId('endpoints')
  readonly #process = byId('endpoints-process')
  readonly #table = new FixedTable(heads, Object.keys(products).length)
  readonly #origin: string
  #last: { readonly at: number; readonly now: ExpositionText } | null = null
  #lines: string[][] = []
  #processText = ''
  #isReachable = true

  constructor(origin: string, changed: () => void) {
    this.#origin = origin
    const body = byId('endpoints-body')
    body.tabIndex = 0
    body.append(this.#table.element)
    if (document.body.dataset.page !== 'full') return
    const turn = async () => {
      if (document.visibilityState === 'visible') await this.#ask()
      changed()
      setTimeout(turn, askMs)
    }
    void turn()
  }

  draw(): void {
    this.#section.classList.toggle('folded', !this.#isReachable)
    this.#table.fill(this.#lines)
    setText(this.#process, this.#isReachable ? this.#processText : '/metrics cannot be read')
  }

  async #ask(): Promise<void> {
    try {
      const response = await fetch(`${this.#origin}/metrics`)
      this.#isReachable = response.ok
      if (response.ok) this.#take(new ExpositionText(await response.text()))
    } catch {
      this.#isReachable = false
    }
  }

  #take(now: ExpositionText): void {
    const at = performance.now()
    const last = this.#last
    this.#last = { at, now }
    if (last === null) return
    const samples = { before: last.now, now, seconds: (at - last.at) / 1000 }
    const latency = (histogram: string | undefined, part: number) =>
      millis(quantileMs(samples, histogram, part) ?? Number.NaN)
    this.#lines = enabledProducts(now).map(([name, spec]) => [
      name,
      spec.trouble(now) ?? states[name]!(now),
      short(rateOf(spec.total, samples)),
      latency(spec.latency, 0.5),
      latency(spec.latency, 0.99),
      short(rateOf(spec.errors, samples)),
      short(rateOf(spec.refused, samples)),
      short(spec.open(now) ?? Number.NaN),
    ])
    const cpu = rateOf((sample) => sample.sum('process_cpu_seconds_total'), samples) * 100
    this.#processText = [
      `CPU ${cpu.toFixed(0)} %`,
      `memory ${short(now.sum('process_resident_memory_bytes'))}B`,
      `event loop lag p99 ${latency('event_loop_lag_seconds', 0.99)} ms`,
    ].join(' · ')
  }
}
