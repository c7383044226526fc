// What every sink promises, on the sinks there are.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openSink, type SinkConfig } from '../../src/indexer/writer.ts'
import { readRows } from '../testkit/index-reader.ts'
import { describeRowSink } from '../testkit/row-sink-contract.ts'

describeRowSink('DuckDB', {
  async place(): Promise<SinkConfig> {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-index-'))
    return {
      ...{ engine: 'duckdb', folder, url: '', retentionDays: 36_500, retentionBytes: 1e12 },
      clickhouse: { insertMs: 50, insertRows: 20_000 },
      holder: 'test',
    }
  },
  open: (place) => openSink(place, { wrote() {}, failed() {}, parts() {} }),
  read: ({ folder }, table) => readRows(folder, table),
  dispose: ({ folder }) => rm(folder, { recursive: true, force: true }),
  hasProcess: true,
})
