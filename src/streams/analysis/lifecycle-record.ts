// Builds the two JSON forms of a block's lifecycle: a move on the stream, a record in REST.
// Absent values are left out; times are float ms between event timestamps, never
// below 0 (different threads of the node take them).

export type BlockStage = 'Proposed' | 'Voted' | 'Finalized' | 'Verified' | 'Rejected'

/** State of one proposal. */
export interface Tracked {
  readonly id: string
  readonly number: number
  readonly startSeqno: number
  /** When it was proposed. */
  readonly timeNs: bigint
  readonly txnCount: number
  stage: BlockStage
  /** When it entered its current stage. */
  stageNs: bigint
  readonly timings: Partial<Record<BlockStage, bigint>>
  from?: { readonly stage: BlockStage; readonly sinceNs: bigint }
  ethHash?: string
  gasUsed?: number
  executedNs?: bigint
}

/** Payload of a Lifecycle frame; field names are wire names. */
export interface LifecycleMove {
  readonly block_hash: string
  readonly block_number: number
  readonly from_stage?: BlockStage
  readonly to_stage: BlockStage
  readonly time_in_previous_stage_ms?: number
  readonly block_age_ms: number
  readonly txn_count: number
  readonly gas_used?: number
  /** Time of the move by the source's clock: whole milliseconds since 1970. */
  readonly at_ms: number
}

export interface LifecycleRecord extends LifecycleMove {
  readonly current_stage: BlockStage
  readonly eth_block_hash?: string
  readonly stage_timings_ms: Readonly<Partial<Record<BlockStage, number>>>
  readonly execution_time_ms?: number
  readonly total_age_ms: number
}

type From = { readonly stage: BlockStage; readonly sinceNs: bigint } | null

/** Returns the move that has just happened, and stores it for `recordOf`. */
export function moveOf(block: Tracked, from: From, timeNs: bigint): LifecycleMove {
  if (from !== null) block.from = from
  return shapeOf(block, from, timeNs)
}

/** Returns the fields of the last move and all other known fields. */
export function recordOf(block: Tracked): LifecycleRecord {
  const timings: Partial<Record<BlockStage, number>> = {}
  for (const [stage, timeNs] of Object.entries(block.timings))
    timings[stage as BlockStage] = msBetween(block.timeNs, timeNs)
  return {
    ...shapeOf(block, block.from ?? null, block.stageNs),
    current_stage: block.stage,
    ...(block.ethHash === undefined ? {} : { eth_block_hash: block.ethHash }),
    stage_timings_ms: timings,
    ...(block.executedNs === undefined
      ? {}
      : { execution_time_ms: msBetween(block.timeNs, block.executedNs) }),
    total_age_ms: msBetween(block.timeNs, block.stageNs),
  }
}

function shapeOf(block: Tracked, from: From, timeNs: bigint): LifecycleMove {
  return {
    block_hash: block.id,
    block_number: block.number,
    ...(from === null ? {} : { from_stage: from.stage }),
    to_stage: block.stage,
    ...(from === null ? {} : { time_in_previous_stage_ms: msBetween(from.sinceNs, timeNs) }),
    block_age_ms: msBetween(block.timeNs, timeNs),
    txn_count: block.txnCount,
    ...(block.gasUsed === undefined ? {} : { gas_used: block.gasUsed }),
    at_ms: wallMs(timeNs),
  }
}

/** A time of the source's clock on the wire: whole milliseconds since 1970. */
export function wallMs(atNs: bigint): number {
  return Number(atNs / 1_000_000n)
}

function msBetween(startNs: bigint, endNs: bigint): number {
  return endNs <= startNs ? 0 : Number(endNs - startNs) / 1e6
}
