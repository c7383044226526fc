// Meters of the execution pipeline between source and event log.
import type { CounterChild, HistogramChild, Meters } from '../../base/telemetry/meters.ts'
import type { JobOutcome } from '../analysis/block-jobs.ts'

const blockOutcomes = [
  'analysed',
  'overrun',
  'malformed',
  'too-large',
  'failed',
  'half-seen',
] as const
export type BlockOutcome = (typeof blockOutcomes)[number]

export interface ExecutionMeters {
  readonly blocks: Readonly<Record<BlockOutcome, CounterChild>>
  readonly analysis: HistogramChild
  readonly retries: CounterChild
  readonly workerDeaths: CounterChild
  readonly sourceRestarts: CounterChild
}

export function declareExecutionMeters(meters: Meters): ExecutionMeters {
  return {
    blocks: meters.counters(
      'sluice_analysis_blocks_total',
      'Executed blocks by the outcome of their analysis.',
      'outcome',
      blockOutcomes,
    ),
    analysis: meters.histogram(
      'sluice_analysis_seconds',
      'Time from reading a BlockEnd to appending its frames to the log.',
    ),
    retries: meters.counter(
      'sluice_analysis_retries_total',
      'Block analyses whose worker failed; they were retried or given up.',
    ),
    workerDeaths: meters.counter(
      'sluice_analysis_worker_deaths_total',
      'Analysis workers that died.',
    ),
    sourceRestarts: meters.counter(
      'sluice_source_restarts_total',
      'Restarts of the execution source thread.',
    ),
  }
}

export function outcomeOf(outcome: JobOutcome | null): BlockOutcome {
  if (outcome === null) return 'half-seen'
  return outcome.outcome === 'done' ? 'analysed' : outcome.reason
}
