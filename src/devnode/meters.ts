// Meters of the embedded Solana chain. Thread: main. Declared once by start.ts.
import type { CounterChild, GaugeChild, HistogramChild, Meters } from '../telemetry/meters.ts'

export interface ChainMeters {
  readonly transactions: {
    readonly landed: CounterChild
    readonly failed: CounterChild
    readonly rejected: CounterChild
  }
  readonly executorRestarts: CounterChild
  readonly executorUp: GaugeChild
  readonly snapshotSeconds: HistogramChild
  /** Lets the scraper read what the ledger knows. */
  watch(read: ChainReadings): void
}

export interface ChainReadings {
  slot(): number
  accounts(): number
  historyBytes(): number
}

export function declareChainMeters(meters: Meters): ChainMeters {
  const transactions = meters.counter(
    'sluice_chain_transactions_total',
    'Transactions of the embedded chain: landed, landed with an error, not taken.',
    { outcome: ['landed', 'failed', 'rejected'] },
  )
  return {
    transactions: {
      landed: transactions.with({ outcome: 'landed' }),
      failed: transactions.with({ outcome: 'failed' }),
      rejected: transactions.with({ outcome: 'rejected' }),
    },
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
    watch(read) {
      meters.gaugeRead('sluice_chain_slot', 'The open slot of the embedded chain.', read.slot)
      meters.gaugeRead('sluice_chain_accounts', 'Accounts of the embedded chain.', read.accounts)
      meters.gaugeRead(
        'sluice_chain_history_bytes',
        'Memory that the history of the embedded chain takes.',
        read.historyBytes,
      )
    },
  }
}
