// Declares the meters of the query processes. Thread: main.
import type { CounterChild, GaugeChild, Meters } from '../../../telemetry/meters.ts'

const reasons = ['memory', 'time', 'crash'] as const

export interface QueryProcessMeters {
  readonly processes: GaugeChild
  readonly busy: GaugeChild
  readonly kills: Readonly<Record<(typeof reasons)[number], CounterChild>>
}

export function declareQueryProcessMeters(meters: Meters): QueryProcessMeters {
  return {
    processes: meters.gauge('sluice_index_query_processes', 'Query processes, busy and idle'),
    busy: meters.gauge('sluice_index_query_processes_busy', 'Query processes that run a query'),
    kills: meters.counters(
      'sluice_index_query_kills_total',
      'Query processes that were killed or crashed, by reason',
      'reason',
      reasons,
    ),
  }
}
