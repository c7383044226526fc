// Which meter of the server means what: state, rate, errors and lag of every product, from two
// samples. Read by `sluice status`, `sluice top` and the live page. Pure.
import type { ExpositionText } from './exposition-text.ts'

export interface ProductSpec {
  /** A meter that exists while the product is enabled. */
  readonly meter: string
  /** The histogram of its latency, where it has one. */
  readonly latency?: string
  total(now: ExpositionText): number
  errors(now: ExpositionText): number
  refused(now: ExpositionText): number
  /** Connections, streams, queries, submissions or destinations. */
  open(now: ExpositionText): number | null
  /** Why it does not work as it should; null when it does. */
  trouble(now: ExpositionText): string | null
}

export interface FigureSamples {
  readonly before: ExpositionText
  readonly now: ExpositionText
  readonly seconds: number
}

const tokenRefused = (now: ExpositionText, door: string) =>
  now.sum('auth_refused_total', { door }) +
  now.sum('quota_refused_total', { door }) +
  now.sum('address_refused_total', { door })
const noNode = (now: ExpositionText) =>
  now.values('upstream_up').some((value) => value === 1) ? null : 'down: no healthy node'
const noStream = (now: ExpositionText) =>
  noNode(now) ?? (now.values('upstream_geyser_up').includes(0) ? 'degraded: no geyser' : null)

export const products: Readonly<Record<string, ProductSpec>> = {
  rpc: {
    meter: 'rpc_seconds_count',
    latency: 'rpc_seconds',
    total: (now) => now.sum('rpc_requests_total'),
    errors: (now) => now.sum('rpc_requests_total', { outcome: 'error' }),
    refused: (now) => tokenRefused(now, 'rpc'),
    open: () => null,
    trouble: noNode,
  },
  websocket: {
    meter: 'websocket_connections',
    latency: 'websocket_delivery_seconds',
    total: (now) => now.sum('websocket_notifications_total'),
    errors: (now) => now.sum('websocket_requests_total', { outcome: 'error' }),
    refused: (now) => tokenRefused(now, 'websocket'),
    open: (now) => now.sum('websocket_connections'),
    trouble: noStream,
  },
  grpc: {
    meter: 'grpc_streams',
    total: (now) => now.sum('grpc_updates_total'),
    errors: (now) => now.sum('grpc_streams_ended_total', { reason: '!client' }),
    refused: (now) => tokenRefused(now, 'grpc'),
    open: (now) => now.sum('grpc_streams'),
    trouble: noStream,
  },
  tpu: {
    meter: 'tpu_in_flight',
    latency: 'tpu_forward_seconds',
    total: (now) => now.sum('tpu_accepted_total') + now.sum('tpu_rejected_total'),
    errors: (now) => now.sum('tpu_outcomes_total', { outcome: '!landed' }),
    refused: (now) => now.sum('tpu_rejected_total') + tokenRefused(now, 'tpu'),
    open: (now) => now.sum('tpu_in_flight'),
    trouble: (now) => (now.sum('tpu_upstreams_up') > 0 ? null : 'down: no healthy upstream'),
  },
  indexer: {
    meter: 'index_queries_running',
    latency: 'index_query_seconds',
    total: (now) => now.sum('index_queries_total'),
    errors: (now) =>
      now.sum('index_queries_total', { outcome: '!OK' }) + now.sum('index_write_failures_total'),
    refused: (now) => tokenRefused(now, 'indexer'),
    open: (now) => now.sum('index_queries_running'),
    trouble: () => null,
  },
  shredstream: {
    meter: 'shreds_worker_up',
    total: (now) => now.sum('shreds_out_total'),
    errors: (now) =>
      now.sum('shreds_dropped_total', { reason: '!duplicate' }) +
      now.sum('shreds_kernel_dropped_total'),
    refused: () => 0,
    open: (now) => now.sum('shreds_destinations_active'),
    trouble: (now) => (now.sum('shreds_worker_up') === 1 ? null : 'down: its worker restarts'),
  },
  metrics: {
    meter: 'metrics_open',
    latency: 'frame_delivery_seconds',
    total: (now) => now.sum('frames_sent_total'),
    errors: (now) => now.sum('source_gaps_total') + now.sum('frames_dropped_total'),
    refused: (now) => now.sum('ws_refused_total') + tokenRefused(now, 'metrics'),
    open: (now) => now.sum('ws_clients'),
    trouble: (now) => (now.sum('metrics_open') === 1 ? null : 'closed: its source is silent'),
  },
}

const slots = (now: ExpositionText) => {
  const lags = now.values('upstream_lag_slots')
  return lags.length === 0 ? '' : `${Math.min(...lags)} slots`
}
const seconds = (now: ExpositionText, name: string) =>
  now.values(name).length === 0 ? '' : `${now.sum(name).toFixed(1)} s`

/** What the rate of a product counts, and how far it is behind its source: for the commands. */
export const commandWords: Readonly<
  Record<string, { readonly unit: string; lag(now: ExpositionText): string }>
> = {
  rpc: { unit: 'calls/s', lag: slots },
  websocket: { unit: 'notifications/s', lag: slots },
  grpc: { unit: 'updates/s', lag: slots },
  tpu: { unit: 'transactions/s', lag: slots },
  indexer: { unit: 'queries/s', lag: (now) => seconds(now, 'index_lag_seconds') },
  shredstream: { unit: 'shreds/s', lag: () => '' },
  metrics: { unit: 'frames/s', lag: (now) => seconds(now, 'source_event_age_seconds') },
}

export interface ProductFigures {
  readonly name: string
  /** `open`, or why it does not work as it should. */
  readonly state: string
  readonly rate: number
  readonly unit: string
  /** Of what happened between the samples; null when nothing did. */
  readonly p50Ms: number | null
  readonly p99Ms: number | null
  /** Since the start of the server. */
  readonly errors: number
  readonly refused: number
  readonly open: number | null
}

export function enabledProducts(now: ExpositionText): [name: string, spec: ProductSpec][] {
  return Object.entries(products).filter(([, { meter }]) => now.values(meter).length > 0)
}

/** The figures of every enabled product. */
export function productFigures(samples: FigureSamples): ProductFigures[] {
  const { now } = samples
  return enabledProducts(now).map(([name, spec]) => ({
    name,
    state: spec.trouble(now) ?? 'open',
    rate: rateOf(spec.total, samples),
    unit: commandWords[name]!.unit,
    p50Ms: quantileMs(samples, spec.latency, 0.5),
    p99Ms: quantileMs(samples, spec.latency, 0.99),
    errors: spec.errors(now),
    refused: spec.refused(now),
    open: spec.open(now),
  }))
}

/**
 * A quantile of what a histogram counted between two samples, interpolated within its bucket; null
 * when it counted nothing.
 */
export function quantileMs(
  { before, now }: Pick<FigureSamples, 'before' | 'now'>,
  histogram: string | undefined,
  quantile: number,
): number | null {
  if (histogram === undefined) return null
  const earlier = before.buckets(histogram)
  const counts = [...now.buckets(histogram)].map(
    ([bound, count]) => [bound, count - (earlier.get(bound) ?? 0)] as const,
  )
  const rank = (counts.at(-1)?.[1] ?? 0) * quantile
  if (rank <= 0) return null
  let below = { bound: 0, count: 0 }
  for (const [bound, count] of counts) {
    // Beyond the last bound nothing is known but that it is more.
    if (count >= rank && bound === Number.POSITIVE_INFINITY) break
    if (count >= rank)
      return (
        1000 *
        (below.bound +
          ((bound - below.bound) * (rank - below.count)) / Math.max(1, count - below.count))
      )
    below = { bound, count }
  }
  return 1000 * below.bound
}

/** Per second between the samples; a counter that fell belongs to a server that was restarted. */
export function rateOf(
  count: (sample: ExpositionText) => number,
  { before, now, seconds }: FigureSamples,
): number {
  return Math.max(0, count(now) - count(before)) / seconds
}

export function rateText(rate: number, unit: string): string {
  return `${rate.toFixed(rate < 10 && rate > 0 ? 1 : 0)} ${unit}`
}
