// Declares the meters of the ingest pipeline. Thread: main.
import type { CounterChild, Meters } from '../../../telemetry/meters.ts'
import { LatencyTally } from '../../../telemetry/tally.ts'
import { type FeedName, feedNames, tableNames } from '../tables.ts'

export interface IngestMeters {
  readonly lost: Readonly<Record<FeedName, CounterChild>>
  readonly reread: CounterChild
  readonly batches: CounterChild
  readonly writeFailures: CounterChild
  readonly restarts: CounterChild
  readonly write: LatencyTally
  /** Time from an update to its durable row. */
  readonly delay: LatencyTally
  /** Counts the rows of one write. */
  wrote(rows: Readonly<Record<string, number>>): void
  /** Connects the state that is read at scrape. */
  watch(state: IngestState): void
}

export interface IngestState {
  /** Age of the oldest update that is not yet durable; 0 when there is none. */
  lagMs(): number
  unackedBytes(): number
}

export function declareIngestMeters(meters: Meters): IngestMeters {
  let state: IngestState | null = null
  meters.gaugeRead(
    'sluice_index_lag_seconds',
    'Age of the oldest update that is not yet durable in the index; 0 for none',
    () => (state === null ? 0 : state.lagMs() / 1000),
  )
  meters.gaugeRead(
    'sluice_index_unacked_bytes',
    'Bytes sent to the index writer and not yet acknowledged',
    () => (state === null ? 0 : state.unackedBytes()),
  )
  const rows = new Map<string, number>(tableNames.map((name) => [name, 0]))
  meters.counterRead(
    'sluice_index_rows_total',
    'Rows written, by table',
    { table: tableNames },
    () => tableNames.map((table) => [{ table }, rows.get(table)!] as const),
  )
  const delay = new LatencyTally()
  meters.histogramRead(
    'sluice_index_delay_seconds',
    'Time from an update to its durable rows, by the oldest update of each delivery',
    delay.buckets,
    () => delay.read(),
  )
  const write = new LatencyTally()
  meters.histogramRead(
    'sluice_index_write_seconds',
    'Duration of one durable write',
    write.buckets,
    () => write.read(),
  )
  return {
    lost: meters.counters(
      'sluice_index_lost_total',
      'Slots, frames, tips and queries lost before they were indexed',
      'feed',
      feedNames,
    ),
    reread: meters.counter(
      'sluice_index_reread_total',
      'Deliveries that were retried after the writer had ended or rejected them',
    ),
    batches: meters.counter('sluice_index_batches_total', 'Durable writes'),
    writeFailures: meters.counter('sluice_index_write_failures_total', 'Writes that failed'),
    restarts: meters.counter(
      'sluice_index_writer_restarts_total',
      'Restarts of the writer process',
    ),
    write,
    delay,
    wrote(counts) {
      for (const [table, count] of Object.entries(counts))
        rows.set(table, (rows.get(table) ?? 0) + count)
    },
    watch(watched) {
      state = watched
    },
  }
}
