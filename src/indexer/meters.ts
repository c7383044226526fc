// Declares the meters of the indexer: its endpoint, its ingest pipeline, its query processes.
import type { Meters } from '../base/telemetry/meters.ts'
import { codeOf } from './clickhouse/exceptions.ts'
import { feedNames, tableNames } from './tables.ts'

const OK = 'OK'
/** Names of exceptions; those that only an engine defines are `OTHER`. */
const outcomes: readonly string[] = [OK, ...Object.keys(codeOf), 'OTHER']
const ways = ['killed', 'client_gone', 'access_lost'] as const
export type StopWay = (typeof ways)[number]

export type IndexerMeters = ReturnType<typeof declareIndexerMeters>

export function declareIndexerMeters(meters: Meters) {
  const finished = meters.counters(
    'sluice_index_queries_total',
    'Queries of the indexer by how they ended: OK or the name of the exception',
    'outcome',
    outcomes,
  )
  const own = {
    finished: (outcome: string) => (finished[outcome] ?? finished.OTHER!).inc(),
    latency: meters.latency(
      'sluice_index_query_seconds',
      'Time from a complete query to the end of its response',
    ),
    rows: meters.counter('sluice_index_query_rows_total', 'Rows returned by queries'),
    bytes: meters.counter('sluice_index_query_bytes_total', 'Bytes of results before compression'),
    stopped: meters.counters(
      'sluice_index_queries_stopped_total',
      'Queries stopped early: by KILL QUERY, by a client that left, by a lost credential',
      'way',
      ways,
    ),
    /** Returns the number of running queries. */
    running: (): number => 0,
    /** Returns the number of queries that wait for one of their subscription to end. */
    waiting: (): number => 0,
  }
  meters.gaugeRead('sluice_index_queries_running', 'Running queries', () => own.running())
  meters.gaugeRead(
    'sluice_index_queries_waiting',
    "Queries over their plan's number at once, waiting for one of them to end",
    () => own.waiting(),
  )
  return own
}

export type IngestMeters = ReturnType<typeof declareIngestMeters>

export interface IngestState {
  /** Age of the oldest update that is not yet durable; 0 when all are. */
  lagMs(): number
  unackedBytes(): number
}

export function declareIngestMeters(meters: Meters) {
  let state: IngestState | null = null
  meters.gaugeRead(
    'sluice_index_lag_seconds',
    'Age of the oldest update that is not yet durable in the index; 0 for none',
    () => (state === null ? 0 : state.lagMs() / 1000),
  )
  meters.gaugeRead(
    'sluice_index_unacked_bytes',
    'Bytes that the index writer has read and that are not yet durable',
    () => (state === null ? 0 : state.unackedBytes()),
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
      'Slots that were read again, because the writer or its stream had ended',
    ),
    batches: meters.counter('sluice_index_batches_total', 'Durable writes'),
    writeFailures: meters.counter('sluice_index_write_failures_total', 'Writes that failed'),
    restarts: meters.counter(
      'sluice_index_writer_restarts_total',
      'Restarts of the writer process',
    ),
    write: meters.latency('sluice_index_write_seconds', 'Duration of one durable write'),
    delay: meters.latency(
      'sluice_index_delay_seconds',
      'Time from an update to its durable rows, by the oldest update of each delivery',
    ),
    ...declareRowMeters(meters),
    /** Connects the state that is read at scrape. */
    watch(watched: IngestState) {
      state = watched
    },
  }
}

/** Rows and inserts by table, and what they cost a ClickHouse server. */
function declareRowMeters(meters: Meters) {
  const names: readonly string[] = tableNames
  const rows = meters.counters('sluice_index_rows_total', 'Rows written, by table', 'table', names)
  const inserts = meters.counters(
    'sluice_index_inserts_total',
    'Durable writes that had rows of the table; sluice_index_rows_total over it is rows per insert',
    'table',
    names,
  )
  let parts = new Map<string, number>()
  meters.gaugesRead(
    'sluice_index_clickhouse_parts',
    'Active parts of a ClickHouse table in its fullest partition; many mean inserts too small',
    { table: tableNames },
    function* () {
      for (const table of tableNames)
        if (parts.has(table)) yield [{ table }, parts.get(table)!] as const
    },
  )
  return {
    /** Counts the rows of one write. */
    wrote(counts: Readonly<Record<string, number>>) {
      for (const [table, count] of Object.entries(counts)) {
        rows[table]?.inc(count)
        inserts[table]?.inc()
      }
    },
    /** Active parts of each ClickHouse table, in its fullest partition. */
    parts(counts: Readonly<Record<string, number>>) {
      parts = new Map(Object.entries(counts))
    },
  }
}

const reasons = ['memory', 'time', 'crash', 'outside'] as const
export type KillReason = (typeof reasons)[number]

/** What an engine counts, in the query program. */
export interface QueryProcessMeters {
  sizes(processes: number, busy: number): void
  killed(reason: KillReason): void
}

/** Query processes now, and those that were killed since the last report. */
export interface QueryReport {
  readonly processes: number
  readonly busy: number
  readonly kills: readonly KillReason[]
}

/** The same in the gateway, as the program reports it. */
export type QueryProgramMeters = ReturnType<typeof declareQueryProgramMeters>

export function declareQueryProgramMeters(meters: Meters) {
  const all = meters.gauge('sluice_index_query_processes', 'Query processes, busy and idle')
  const running = meters.gauge(
    'sluice_index_query_processes_busy',
    'Query processes that run a query',
  )
  const killed = meters.counters(
    'sluice_index_query_kills_total',
    'Query processes that were killed or crashed, by reason',
    'reason',
    reasons,
  )
  return {
    restarts: meters.counter(
      'sluice_index_query_program_restarts_total',
      'Restarts of the program that answers queries',
    ),
    report({ processes, busy, kills }: QueryReport) {
      all.set(processes)
      running.set(busy)
      for (const reason of kills) killed[reason].inc()
    },
  }
}
