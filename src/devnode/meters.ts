// Meters of the embedded Solana chain, kept by the devnode's parent.
import type { CounterChild, HistogramChild, Meters } from '../base/telemetry/meters.ts'

const outcomes = ['landed', 'failed', 'rejected'] as const

/** What the chain counts as it runs. */
export interface ChainCounters {
  readonly transactions: Readonly<Record<(typeof outcomes)[number], CounterChild>>
  readonly snapshotSeconds: HistogramChild
}

export type ChainMeters = ReturnType<typeof declareChainMeters>

export function declareChainMeters(meters: Meters) {
  return {
    transactions: meters.counters(
      'sluice_chain_transactions_total',
      'Transactions of the embedded chain: landed, landed with an error, not taken.',
      'outcome',
      outcomes,
    ),
    executorRestarts: meters.counter(
      'sluice_chain_executor_restarts_total',
      "Starts of the embedded chain's process after it died.",
    ),
    executorUp: meters.gauge(
      'sluice_chain_executor_up',
      "1 while the embedded chain's process runs.",
    ),
    snapshotSeconds: meters.histogram(
      'sluice_chain_snapshot_seconds',
      'Time to write all accounts of the embedded chain to disk.',
    ),
    /** Lets the scraper read the ledger's figures. */
    watch(read: Readonly<Record<'slot' | 'accounts' | 'historyBytes', () => number>>) {
      meters.gaugeRead(
        'sluice_chain_slot',
        'Newest complete slot of the embedded chain.',
        read.slot,
      )
      meters.gaugeRead('sluice_chain_accounts', 'Accounts of the embedded chain.', read.accounts)
      meters.gaugeRead(
        'sluice_chain_history_bytes',
        'Memory that the history of the embedded chain takes.',
        read.historyBytes,
      )
    },
  }
}
