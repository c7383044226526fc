// Opens the configured row sink, DuckDB or ClickHouse. Thread: main of the writer process.
// Engines are imported on demand, because DuckDB's module is large.
import type { RowSink } from './engine.ts'
import type { SinkConfig } from './writer.ts'

const msPerDay = 86_400_000

export async function openSink(config: SinkConfig): Promise<RowSink> {
  const { folder, url, retentionDays, retentionBytes, holder } = config
  if (config.engine === 'clickhouse') {
    const { openClickhouseSink } = await import('./clickhouse/sink.ts')
    return openClickhouseSink(url, { retentionDays, holder })
  }
  const { openDuckdbSink } = await import('./duckdb/sink.ts')
  return openDuckdbSink(folder, { retentionMs: retentionDays * msPerDay, retentionBytes })
}
