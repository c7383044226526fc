// Runs the sink contract suite on a plain in-memory sink, to check the suite itself.
import type { SinkConfig } from '../../../../src/indexer/writer.ts'
import { MemorySink } from '../../../testkit/memory-sink.ts'
import { describeRowSink } from '../../../testkit/row-sink-contract.ts'

const kept = new Map<SinkConfig, MemorySink>()

describeRowSink('memory', {
  async place() {
    const place: SinkConfig = {
      engine: 'duckdb',
      clickhouse: { insertMs: 0, insertRows: 1 },
      folder: '',
      url: '',
      retentionDays: 30,
      retentionBytes: 1e9,
      holder: 'test',
    }
    kept.set(place, new MemorySink())
    return place
  },
  open: async (place) => kept.get(place)!,
  read: async (place, table) =>
    kept
      .get(place)!
      .rows(table)
      .map((row) => Object.values(row)),
  async dispose(place) {
    kept.delete(place)
  },
  hasProcess: false,
})
