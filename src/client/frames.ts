// Types of the metrics service: stream frames and REST records, with their wire names.
// Belongs to `sluice/client`; no dependencies.

export const kinds = ['TPS', 'ContentionData', 'TopAccesses', 'Lifecycle'] as const
export type Kind = (typeof kinds)[number]

export type Stage = 'Proposed' | 'Voted' | 'Finalized' | 'Verified' | 'Rejected'

export interface ContentionData {
  /** Consensus id: two proposals may have one number. */
  block_hash: string
  /** Time of the BlockEnd by the source's clock: milliseconds since 1970. */
  at_ms: number
  block_number: number
  block_wall_time_ns: number
  total_tx_time_ns: number
  /** See `efficiencyBand`. */
  parallel_efficiency_pct: number
  total_unique_slots: number
  contended_slot_count: number
  /** Fraction of accessed slots that had competing transactions. */
  contention_ratio: number
  total_txn_count: number
  top_contended_slots: {
    address: string
    slot: string
    txn_count: number
    access_count: number
  }[]
  top_contended_contracts: {
    address: string
    total_slots: number
    contended_slots: number
    total_accesses: number
    contention_score: number
  }[]
  contract_edges: { contract_a: string; contract_b: string; shared_txn_count: number }[]
  /** Contended slots that at least one transaction wrote. */
  written_contended_slot_count: number
  /** Longest chain of transactions that had to wait for each other. */
  critical_path_txn_count: number
}

export interface TopAccesses {
  account: { key: string; count: number; error: number }[]
  storage: { key: [address: string, slot: string]; count: number; error: number }[]
}

export interface Lifecycle {
  block_hash: string
  block_number: number
  from_stage?: Stage
  to_stage: Stage
  time_in_previous_stage_ms?: number
  block_age_ms: number
  txn_count: number
  gas_used?: number
  /** Time of the move by the source's clock: milliseconds since 1970. */
  at_ms: number
}

export interface LifecycleRecord extends Lifecycle {
  current_stage: Stage
  eth_block_hash?: string
  /** Stage to milliseconds since Proposed. */
  stage_timings_ms: Partial<Record<Stage, number>>
  execution_time_ms?: number
  total_age_ms?: number
}

/** Source sequence numbers that are lost permanently, both ends included. */
export interface Gap {
  from: number
  to: number
  /** Time of the last block-level event before it: milliseconds since 1970. */
  at_ms?: number
  /** Missing blocks, where gateways share the log and none of them had these. */
  from_block?: number
  to_block?: number
}

export interface Resume {
  mode: 'snapshot' | 'resume'
  /** Identifies the server's process. */
  run: string
  oldest: number
  newest: number
}

/** Scalars of one block: a row of `GET /v1/blocks`. */
export interface BlockRow
  extends Pick<
    ContentionData,
    | 'block_number'
    | 'block_hash'
    | 'at_ms'
    | 'parallel_efficiency_pct'
    | 'contended_slot_count'
    | 'written_contended_slot_count'
    | 'critical_path_txn_count'
    | 'total_txn_count'
    | 'block_wall_time_ns'
  > {
  /** The TPS that was published at its BlockStart. */
  tps: number
}

export interface Payloads {
  TPS: number
  ContentionData: ContentionData
  TopAccesses: TopAccesses
  Lifecycle: Lifecycle
  Gap: Gap
}

/** A numbered frame, as the iterator yields it. */
export type Frame = {
  [K in keyof Payloads]: { readonly seq: number; readonly kind: K; readonly payload: Payloads[K] }
}[keyof Payloads]

export interface Status {
  status: 'healthy' | 'degraded'
  block_number: number
  connected_clients: number
  uptime_secs: number
  last_event_age_secs: number
  ring_seqno: number
  oldest_seqno: number
  newest_seqno: number
  /** 0 before the first block. */
  chain_id: number
  /** Whether the execution events are made up, were recorded, or are those of a node. */
  source: 'generated' | 'recording' | 'ring'
  /** Name of the recording. */
  source_file?: string
}

export interface Health {
  healthy: boolean
  number: number
  last_event_age_secs: number
}

export type EfficiencyBand = 'excellent' | 'bottlenecks' | 'sequential'

/** Meaning of each band of parallel_efficiency_pct. */
export const efficiencyMeanings: Readonly<Record<EfficiencyBand, string>> = {
  excellent: '90 or more: excellent parallelization',
  bottlenecks: '70 to 90: some contention bottlenecks',
  sequential: 'below 70: significant sequential execution caused by storage conflicts',
}

/** The band of a parallel_efficiency_pct. */
export function efficiencyBand(percent: number): EfficiencyBand {
  if (percent >= 90) return 'excellent'
  return percent >= 70 ? 'bottlenecks' : 'sequential'
}

/** A block with fewer transactions cannot be parallel, whatever it contends for. */
export const verdictTxnsLeast = 50

/** The band of a block; null where low efficiency says nothing: it is small, or nothing in it is
 *  contended. */
export function verdictOf(
  block: Pick<
    ContentionData,
    'parallel_efficiency_pct' | 'total_txn_count' | 'contended_slot_count'
  >,
): EfficiencyBand | null {
  const isJudged = block.total_txn_count >= verdictTxnsLeast && block.contended_slot_count > 0
  return isJudged ? efficiencyBand(block.parallel_efficiency_pct) : null
}

/** GET /v1/solana: the sets of nodes, their chains, and what the products count. */
export interface Solana {
  /** When it was made: milliseconds since 1970. */
  at_ms: number
  /** The default set first. */
  sets: SolanaSet[]
  /** What the document has no space for; absent, as products and nodes, in a customer's view. */
  left_out?: { sets: number; nodes: number }
  products?: SolanaProducts
}

export interface SolanaSet {
  set: string
  /** Null while no stream of the set is open. */
  stream: SolanaStream | null
  nodes?: SolanaNode[]
}

export interface SolanaStream {
  up: boolean
  slot_ms: number
  /** Since the newest block arrived; null before the first. */
  age_ms: number | null
  processed: number | null
  confirmed: number | null
  finalized: number | null
  /** Transactions per second over about ten seconds of confirmed blocks. */
  tps: number | null
  /** Compute units that a block may cost. */
  cost_limit: number
  /** The last confirmed blocks, oldest first. */
  blocks: SolanaBlock[]
}

/** Null: its transactions were not read, as nobody had asked for some time. */
export interface SolanaBlock {
  slot: number
  transactions: number
  votes: number | null
  failed: number | null
  fee_lamports: number | null
  /** Of the transactions that are no votes. */
  median_fee_lamports: number | null
  cost_units: number | null
}

export interface SolanaNode {
  node: string
  region: string
  state: string
  slot: number | null
  lag_slots: number | null
  /** Its part of what arrived first on the stream, 0 to 1. */
  first_share: number | null
}

/** Totals since the start; a product that is off is absent. */
export interface SolanaProducts {
  rpc?: SolanaCalls
  websocket?: SolanaCalls
  grpc?: SolanaCalls
  tpu?: SolanaTpu
  shredstream?: SolanaShreds
}

/** Null: the product has no such thing. */
export interface SolanaCalls {
  calls: number
  errors: number
  refused: number
  /** Connections or streams. */
  open: number | null
  subscriptions: number | null
  /** Notifications or updates. */
  sent: number | null
}

export interface SolanaTpu {
  accepted: number
  rejected: number
  landed: number
  expired: number
  failed: number
  in_flight: number
  queued: number
  senders_up: number
  /** Counts of landings by their time, cumulative; the last bound is null. */
  land_seconds: [bound: number | null, count: number][]
}

export interface SolanaShreds {
  up: boolean
  received: number
  /** First copies. */
  accepted: number
  sent: number
  dropped: number
  rebuilt: number
  destinations: number
}
