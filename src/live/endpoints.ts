// The operator's view: one row per product from `/metrics`, every two seconds, by difference.
// Thread: browser. It folds away when `/metrics` cannot be read; `metrics.page: stream` hides it.
import { byId, FixedTable, setText } from './dom.ts'
import { Exposition } from './exposition.ts'
import { millis, short } from './format.ts'

const askMs = 2_000

interface Product {
  readonly name: string
  readonly rate: readonly string[]
  readonly seconds: string
  /** Series and label of what went wrong. */
  readonly errors: readonly (readonly [series: string, label: string])[]
  readonly open: string
  state(now: Exposition): string
}

const error = 'outcome="error"'
const upstreams = (now: Exposition) => {
  const all = now.count('upstream_up')
  return all === 0 ? '' : `${now.sum('upstream_up')} of ${many(all, 'node')} up`
}
const many = (count: number, name: string) => `${count} ${name}${count === 1 ? '' : 's'}`
const secondsOld = (now: Exposition, name: string) => `${short(now.sum(name))} s`

const products: readonly Product[] = [
  {
    name: 'rpc',
    rate: ['rpc_requests_total'],
    seconds: 'rpc_seconds',
    errors: [['rpc_requests_total', error]],
    open: '',
    state: upstreams,
  },
  {
    name: 'websocket',
    rate: ['websocket_requests_total', 'websocket_notifications_total'],
    seconds: 'websocket_delivery_seconds',
    errors: [['websocket_requests_total', error]],
    open: 'websocket_connections',
    state: upstreams,
  },
  {
    name: 'grpc',
    rate: ['grpc_updates_total'],
    seconds: '',
    errors: [['grpc_streams_ended_total', 'reason="lagged"']],
    open: 'grpc_streams',
    state: upstreams,
  },
  {
    name: 'tpu',
    rate: ['tpu_accepted_total'],
    seconds: 'tpu_forward_seconds',
    errors: [['tpu_rejected_total', '']],
    open: 'tpu_in_flight',
    state: (now) => `${many(now.sum('tpu_upstreams_up'), 'sender')} up`,
  },
  {
    name: 'indexer',
    rate: ['index_queries_total'],
    seconds: 'index_query_seconds',
    errors: [['index_write_failures_total', '']],
    open: 'index_queries_running',
    state: (now) => `${secondsOld(now, 'index_lag_seconds')} behind`,
  },
  {
    name: 'shredstream',
    rate: ['shreds_out_total'],
    seconds: '',
    errors: [['shreds_dropped_total', '']],
    open: 'shreds_destinations_active',
    state: (now) => (now.sum('shreds_worker_up') > 0 ? 'worker up' : 'worker down'),
  },
  {
    name: 'metrics',
    rate: ['frames_sent_total', 'metrics_requests_total'],
    seconds: 'frame_delivery_seconds',
    errors: [['frames_dropped_total', '']],
    open: 'ws_clients',
    state: (now) => `event ${secondsOld(now, 'source_event_age_seconds')} old`,
  },
]

const heads = ['product', 'state', 'per s', 'p50 ms', 'p99 ms', 'errors/s', 'refused/s', 'open']

export class Endpoints {
  readonly everyMs = 500
  readonly #section = byId('endpoints')
  readonly #process = byId('endpoints-process')
  readonly #table = new FixedTable(heads, products.length)
  readonly #origin: string
  #last: { readonly at: number; readonly now: Exposition } | null = null
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
      if (response.ok) this.#take(new Exposition(await response.text()))
    } catch {
      this.#isReachable = false
    }
  }

  #take(now: Exposition): void {
    const at = performance.now()
    const last = this.#last
    this.#last = { at, now }
    if (last === null) return
    const seconds = (at - last.at) / 1000
    // A counter that fell belongs to a server that was restarted.
    const rate = (series: string, label = '') =>
      Math.max(0, now.sum(series, label) - last.now.sum(series, label)) / seconds
    const total = (names: readonly string[]) => names.reduce((sum, name) => sum + rate(name), 0)
    const known = products.filter((one) => one.rate.some((name) => now.has(name)))
    this.#lines = known.map((one) => {
      const door = `door="${one.name}"`
      const refused = ['auth_refused_total', 'quota_refused_total', 'address_refused_total']
      return [
        one.name,
        one.state(now),
        short(total(one.rate)),
        one.seconds === '' ? '–' : millis(now.quantileMs(one.seconds, 0.5, last.now)),
        one.seconds === '' ? '–' : millis(now.quantileMs(one.seconds, 0.99, last.now)),
        short(one.errors.reduce((sum, [series, label]) => sum + rate(series, label), 0)),
        short(refused.reduce((sum, series) => sum + rate(series, door), 0)),
        one.open === '' ? '–' : short(now.sum(one.open)),
      ]
    })
    const cpu = rate('process_cpu_seconds_total') * 100
    const lag = now.quantileMs('event_loop_lag_seconds', 0.99, last.now)
    const memory = now.sum('process_resident_memory_bytes')
    this.#processText = [
      `CPU ${cpu.toFixed(0)} %`,
      `memory ${short(memory)}B`,
      `event loop lag p99 ${millis(lag)} ms`,
    ].join(' · ')
  }
}
