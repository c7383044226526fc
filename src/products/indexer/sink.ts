// Opens the sink that the configuration names. Thread: main of the writer process.
// An engine is loaded only where it is used: DuckDB's is large.
import type { RowSink } from './engine.ts'
import type { SinkPlace } from './writer.ts'

const msPerDay = 86_400_000

export async function openSink(place: SinkPlace): Promise<RowSink> {
  const { folder, url, retentionDays, retentionBytes, holder } = place
  if (place.engine === 'clickhouse') {
    const { openClickhouseSink } = await import('./clickhouse/sink.ts')
    return openClickhouseSink(url, { retentionDays, holder })
  }
  const { openDuckdbSink } = await import('./duckdb/sink.ts')
  return openDuckdbSink(folder, { retentionMs: retentionDays * msPerDay, retentionBytes })
}
