// Declares the meters of the product's own figures and updates them from the stream's frames.
// Gauges have the value of the newest block.
import type { Meters } from '../../base/telemetry/meters.ts'

/** Upper ends; 0.7 and 0.9 are the ends of the bands, and most blocks are above 0.9. */
const efficiencyBuckets = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.99, 0.999, 1]
/** Seconds; a chain with two votes of 400 ms finalizes after 0.8. */
const finalizeBuckets = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 2, 3, 5, 10, 30]

/** Scalars of a ContentionData. */
export interface BlockScalars {
  readonly parallel_efficiency_pct: number
  readonly contention_ratio: number
  readonly critical_path_txn_count: number
  readonly total_txn_count: number
}

export interface ChainMeters {
  tps(value: number): void
  block(scalars: BlockScalars): void
  finalized(ageMs: number): void
}

export function declareChainMeters(meters: Meters): ChainMeters {
  const tps = meters.gauge(
    'sluice_tps',
    'Transactions per second of the execution source, over its last 2.5 blocks',
  )
  const efficiency = meters.histogram(
    'sluice_parallel_efficiency_ratio',
    'Parallel efficiency of executed blocks, 0 to 1; blocks without transactions do not count',
    efficiencyBuckets,
  )
  const contention = meters.gauge(
    'sluice_contention_ratio',
    'Fraction of storage slots that two or more transactions of the newest block accessed',
  )
  const criticalPath = meters.gauge(
    'sluice_critical_path_ratio',
    'Longest chain of dependent transactions over all transactions of the newest block',
  )
  const finalize = meters.histogram(
    'sluice_finalize_seconds',
    'Time from the proposal of a block to its finalization, by event timestamps',
    finalizeBuckets,
  )
  return {
    tps: (value) => tps.set(value),
    block: (scalars) => {
      const { total_txn_count: txns, critical_path_txn_count: path } = scalars
      // The efficiency of an empty block is 0 by definition, which says nothing.
      if (txns > 0) efficiency.observe(scalars.parallel_efficiency_pct / 100)
      contention.set(scalars.contention_ratio)
      criticalPath.set(txns === 0 ? 0 : path / txns)
    },
    finalized: (ageMs) => finalize.observe(ageMs / 1000),
  }
}
