// Starts the configured query engine, DuckDB or ClickHouse.
// Its counterpart for rows is openSink of writer.ts, in the writer process.
import type { Log } from '../base/telemetry/log.ts'
import type { IndexerSection } from './config.ts'
import { startDuckdbEngine } from './duckdb/query-pool.ts'
import type { QueryEngine } from './engine.ts'
import type { QueryProcessMeters } from './meters.ts'
import type { ResultAddress } from './queries/protocol.ts'

export interface EngineDeps {
  /** Folder of DuckDB's files. */
  readonly folder: string
  /** Names this server in the writer lease of ClickHouse; null where another program writes. */
  readonly holder: string | null
  readonly results: ResultAddress
  readonly meters: QueryProcessMeters
  readonly log: Log
}

export async function startEngine(
  { engine, url, queryUrl }: Pick<IndexerSection, 'engine' | 'url' | 'queryUrl'>,
  { folder, holder, results, meters, log }: EngineDeps,
): Promise<QueryEngine> {
  if (engine === 'duckdb') return startDuckdbEngine(folder, { results, meters, log })
  // Imported here: its HTTP client takes longer to load than the rest of the indexer.
  const { refuseSecondWriter } = await import('./clickhouse-server/lease.ts')
  const { startClickhouseEngine } = await import('./clickhouse-server/query-engine.ts')
  const started = await startClickhouseEngine(url, { log, results, queryUrl })
  try {
    if (holder !== null) await refuseSecondWriter(url, holder)
    return started
  } catch (error) {
    await started.stop()
    throw error
  }
}
