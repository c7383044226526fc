// The suite that every sink passes, on the plainest one: a suite nobody can pass proves nothing.
import type { SinkPlace } from '../../../../src/products/indexer/writer.ts'
import { MemorySink } from '../../../support/memory-sink.ts'
import { describeRowSink } from '../../../support/row-sink-contract.ts'

const kept = new Map<SinkPlace, MemorySink>()

describeRowSink('memory', {
  async place() {
    const place: SinkPlace = {
      engine: 'duckdb',
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
