// The contract of engines on embedded DuckDB, in its query processes.
import type { QueryProcessMeters } from '../../src/indexer/meters.ts'
import { describeQueryEngine } from '../testkit/query-engine-contract.ts'
import { QueryStage } from '../testkit/query-stage.ts'

let stage: QueryStage | undefined
let busy = 0
const meters: QueryProcessMeters = {
  sizes(_, count) {
    busy = count
  },
  killed() {},
}

describeQueryEngine('duckdb', {
  async start(batches) {
    stage = await QueryStage.open({ meters })
    await stage.sink.write(batches, {})
    await stage.sink.write(batches, {})
    return stage.engine
  },
  stop: async () => stage?.close(),
  busy: async () => busy,
  lacks: [],
  breakSlack: 0,
})
