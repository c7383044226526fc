// Builds GET /v1/solana: sets of nodes, heads, blocks, and what the products count.
// No sockets here. Nothing in it is of a customer: no token, no address, of nodes only their
// numbers. Customers (`metrics.page: stream`) see the chain of the default set alone.
//
//   SolanaView: nodes, heads, blocks --.
//   Meters: counts of the products ----'--> one document, at most once a second --> all readers
import type { Family } from '../../base/telemetry/exposition.ts'
import type { Meters } from '../../base/telemetry/meters.ts'
import type { BlockFigures } from '../../streams/geyser/hub.ts'

export interface SolanaView {
  /** The default set first. Whoever calls it has the blocks of the next seconds read. */
  sets(): readonly SolanaSet[]
}

export interface SolanaSet {
  readonly name: string
  /** Null: no stream of it is open. */
  readonly stream: SolanaStream | null
  readonly nodes: readonly SolanaNode[]
}

interface SolanaStream {
  readonly isUp: boolean
  readonly slotMs: number
  /** Since the newest block arrived; null before the first. */
  readonly ageMs: number | null
  readonly heads: Readonly<Record<'processed' | 'confirmed' | 'finalized', number | null>>
  /** The last confirmed blocks, oldest first. */
  readonly blocks: readonly BlockFigures[]
}

interface SolanaNode {
  /** `<set>/<number>` */
  readonly name: string
  readonly region: string
  readonly state: string
  readonly slot: number | null
  readonly lagSlots: number | null
  /** Its part of what arrived first, 0 to 1; null without a stream. */
  readonly firstShare: number | null
}

export interface SolanaOptions {
  /** Whether nodes, other sets and products are in it. */
  readonly isFull: boolean
  readonly nowMs: number
}

/** Whatever is configured, the document stays small; more is for `sluice status`. */
const setsMax = 16
const nodesMax = 64
/** More than are confirmed in a second. */
const blocksShown = 16
/** Throughput is that of about so long. */
const tpsMs = 10_000

export async function solanaDocument(
  view: SolanaView,
  meters: Pick<Meters, 'read'>,
  { isFull, nowMs }: SolanaOptions,
): Promise<string> {
  const all = view.sets()
  const sets = all.slice(0, isFull ? setsMax : 1)
  let nodesLeft = nodesMax
  const rows = sets.map(({ name, stream, nodes }) => {
    const listed = isFull ? nodes.slice(0, nodesLeft) : []
    nodesLeft -= listed.length
    const chain = { set: name, stream: stream && streamRow(stream) }
    return isFull ? { ...chain, nodes: listed.map(nodeRow) } : chain
  })
  const count = all.reduce((sum, { nodes }) => sum + nodes.length, 0)
  const document = {
    at_ms: Math.round(nowMs),
    sets: rows,
    ...(isFull && {
      left_out: { sets: all.length - sets.length, nodes: count - (nodesMax - nodesLeft) },
      products: productRows(await meters.read(names)),
    }),
  }
  return JSON.stringify(document)
}

function streamRow({ isUp, slotMs, ageMs, heads, blocks }: SolanaStream) {
  return {
    up: isUp,
    slot_ms: slotMs,
    age_ms: ageMs === null ? null : Math.round(ageMs),
    ...heads,
    tps: tpsOf(blocks, slotMs),
    cost_limit: costLimit(blocks, slotMs),
    blocks: blocks.slice(-blocksShown).map(blockRow),
  }
}

function blockRow({ slot, transactions, content }: BlockFigures) {
  return {
    slot,
    transactions,
    votes: content?.votes ?? null,
    failed: content?.failed ?? null,
    fee_lamports: content?.feeLamports ?? null,
    median_fee_lamports: content?.feeMedian ?? null,
    cost_units: content?.costUnits ?? null,
  }
}

function nodeRow({ name, region, state, slot, lagSlots, firstShare }: SolanaNode) {
  return { node: name, region, state, slot, lag_slots: lagSlots, first_share: firstShare }
}

/** Transactions per second, by slots and their measured time; null before there are two blocks. */
function tpsOf(blocks: readonly BlockFigures[], slotMs: number): number | null {
  const last = blocks.at(-1)
  const recent = blocks.filter(({ slot }) => (last!.slot - slot) * slotMs <= tpsMs)
  const [first, ...later] = recent
  if (first === undefined || last === first) return null
  const transactions = later.reduce((sum, block) => sum + block.transactions, 0)
  return Math.round((transactions * 10_000) / ((last!.slot - first.slot) * slotMs)) / 10
}

/** Compute units that a block may cost at 400 ms; limits follow the slot time, in steps. */
const limitAt400 = 60_000_000
const [stepMs, shortestMs, longestMs] = [50, 200, 400]

/** 100 of 60 million where a block shows that the raised limit is active (SIMD-0286). */
function costLimit(blocks: readonly BlockFigures[], slotMs: number): number {
  const steps = Math.round(slotMs / stepMs) * stepMs
  const limit = (limitAt400 * Math.min(longestMs, Math.max(shortestMs, steps))) / longestMs
  const isRaised = blocks.some(({ content }) => (content?.costUnits ?? 0) > limit)
  return isRaised ? Math.round((limit * 100) / 60) : limit
}

// The counts of the products, from their meters; a product that is off has none.

const names = [
  ...['sluice_rpc_requests_total', 'sluice_websocket_requests_total', 'sluice_grpc_requests_total'],
  ...['sluice_websocket_connections', 'sluice_websocket_subscriptions', 'sluice_grpc_streams'],
  ...['sluice_websocket_notifications_total', 'sluice_grpc_updates_total'],
  ...['sluice_tpu_accepted_total', 'sluice_tpu_rejected_total', 'sluice_tpu_outcomes_total'],
  ...['sluice_tpu_in_flight', 'sluice_tpu_queued', 'sluice_tpu_upstreams_up'],
  'sluice_tpu_land_seconds',
  ...['sluice_shreds_in_total', 'sluice_shreds_accepted_total', 'sluice_shreds_out_total'],
  ...['sluice_shreds_dropped_total', 'sluice_shreds_rebuilt_total', 'sluice_shreds_worker_up'],
  'sluice_shreds_destinations_active',
]

function productRows(families: ReadonlyMap<string, Family>) {
  const read = readings(families)
  const calls = (product: string) => ({
    calls: read.sum(`${product}_requests_total`),
    errors: read.sum(`${product}_requests_total`, { outcome: 'error' }),
    refused: read.sum(`${product}_requests_total`, { outcome: 'refused' }),
  })
  return {
    ...(read.has('rpc_requests_total') && {
      rpc: { ...calls('rpc'), open: null, subscriptions: null, sent: null },
    }),
    ...(read.has('websocket_connections') && {
      websocket: {
        ...calls('websocket'),
        open: read.sum('websocket_connections'),
        subscriptions: read.sum('websocket_subscriptions'),
        sent: read.sum('websocket_notifications_total'),
      },
    }),
    ...(read.has('grpc_streams') && {
      grpc: {
        ...calls('grpc'),
        open: read.sum('grpc_streams'),
        subscriptions: null,
        sent: read.sum('grpc_updates_total'),
      },
    }),
    ...(read.has('tpu_in_flight') && { tpu: tpuRow(read) }),
    ...(read.has('shreds_worker_up') && { shredstream: shredsRow(read) }),
  }
}

function tpuRow(read: Readings) {
  return {
    accepted: read.sum('tpu_accepted_total'),
    rejected: read.sum('tpu_rejected_total'),
    landed: read.sum('tpu_outcomes_total', { outcome: 'landed' }),
    expired: read.sum('tpu_outcomes_total', { outcome: 'expired' }),
    failed: read.sum('tpu_outcomes_total', { outcome: 'failed' }),
    in_flight: read.sum('tpu_in_flight'),
    queued: read.sum('tpu_queued'),
    senders_up: read.sum('tpu_upstreams_up'),
    land_seconds: read.buckets('tpu_land_seconds'),
  }
}

function shredsRow(read: Readings) {
  return {
    up: read.sum('shreds_worker_up') === 1,
    received: read.sum('shreds_in_total'),
    accepted: read.sum('shreds_accepted_total'),
    sent: read.sum('shreds_out_total'),
    dropped: read.sum('shreds_dropped_total'),
    rebuilt: read.sum('shreds_rebuilt_total'),
    destinations: read.sum('shreds_destinations_active'),
  }
}

/** Sums of meters over their labels. Of a hub, what its gateways count: its stream is theirs. */
function readings(families: ReadonlyMap<string, Family>) {
  const samplesOf = (name: string): Family['samples'] => {
    const samples = families.get(`sluice_${name}`)?.samples ?? []
    const ofGateways = samples.filter(({ labels }) => labels.gateway !== undefined)
    return ofGateways.length > 0 ? ofGateways : samples
  }
  return {
    has: (name: string) => samplesOf(name).length > 0,
    sum: (name: string, match: Readonly<Record<string, string>> = {}) =>
      samplesOf(name)
        .filter(({ labels }) => Object.entries(match).every(([key, want]) => labels[key] === want))
        .reduce((sum, { value }) => sum + value, 0),
    /** Cumulative counts of a histogram by upper bound; the last bound, infinity, is null. */
    buckets: (name: string) =>
      samplesOf(name).flatMap(({ name: sample, labels: { le }, value }) =>
        sample.endsWith('_bucket') ? [[le === '+Inf' ? null : Number(le), value] as const] : [],
      ),
  }
}

type Readings = ReturnType<typeof readings>
