// Declares the meters of the indexer's endpoint. Thread: main.
import type { CounterChild, Meters } from '../../telemetry/meters.ts'
import { LatencyTally, PairTally } from '../../telemetry/tally.ts'
import { codeOf } from './exceptions.ts'

const OK = 'OK'
/** Names of exceptions; those that only an engine defines are `OTHER`. */
const outcomes: readonly string[] = [OK, ...Object.keys(codeOf), 'OTHER']
const ways = ['killed', 'client_gone', 'access_lost'] as const
export type StopWay = (typeof ways)[number]

export interface IndexerMeters {
  /** Queries by how they ended; `OK` or the name of an exception. */
  finished(outcome: string): void
  readonly latency: LatencyTally
  readonly rows: CounterChild
  readonly bytes: CounterChild
  /** Queries that were stopped before their end. */
  readonly stopped: Readonly<Record<StopWay, CounterChild>>
  /** Returns the number of running queries. */
  running: () => number
}

export function declareIndexerMeters(meters: Meters): IndexerMeters {
  const finished = new PairTally(outcomes, ['all'])
  const latency = new LatencyTally()
  meters.counterRead(
    'sluice_index_queries_total',
    'Queries of the indexer by how they ended: OK or the name of the exception',
    { outcome: outcomes },
    function* () {
      for (const [outcome, , count] of finished.read()) yield [{ outcome }, count]
    },
  )
  meters.histogramRead(
    'sluice_index_query_seconds',
    'Time from a complete query to the end of its response',
    latency.buckets,
    () => latency.read(),
  )
  const own: IndexerMeters = {
    finished: (outcome) => finished.count(outcome, 'all'),
    latency,
    rows: meters.counter('sluice_index_query_rows_total', 'Rows returned by queries'),
    bytes: meters.counter('sluice_index_query_bytes_total', 'Bytes of results before compression'),
    stopped: meters.counters(
      'sluice_index_queries_stopped_total',
      'Queries stopped early: by KILL QUERY, by a client that left, by a lost credential',
      'way',
      ways,
    ),
    running: () => 0,
  }
  meters.gaugeRead('sluice_index_queries_running', 'Running queries', () => own.running())
  return own
}
