// The meters of the indexer's door. Thread: main.
import type { CounterChild, Meters } from '../../telemetry/meters.ts'
import { LatencyTally, PairTally } from '../../telemetry/tally.ts'
import { codeOf } from './exceptions.ts'

const OK = 'OK'
/** Names of exceptions; what an engine alone knows is `OTHER`. */
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
  /** Where the number of queries under way is read. */
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
    'Time from a whole query to the end of its answer',
    latency.buckets,
    () => latency.read(),
  )
  const stopped = meters.counter(
    'sluice_index_queries_stopped_total',
    'Queries stopped before their end: by KILL QUERY, by a client that left, by a lost credential',
    { way: ways },
  )
  const own: IndexerMeters = {
    finished: (outcome) => finished.count(outcome, 'all'),
    latency,
    rows: meters.counter('sluice_index_query_rows_total', 'Rows that queries gave'),
    bytes: meters.counter('sluice_index_query_bytes_total', 'Bytes of results before compression'),
    stopped: {
      killed: stopped.with({ way: 'killed' }),
      client_gone: stopped.with({ way: 'client_gone' }),
      access_lost: stopped.with({ way: 'access_lost' }),
    },
    running: () => 0,
  }
  meters.gaugeRead('sluice_index_queries_running', 'Queries under way', () => own.running())
  return own
}
