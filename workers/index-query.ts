// Child process of the indexer that runs customers' queries, one at a time. It keeps no state and
// can be killed at any time. Thread: main of its own process.
import { serveFrames } from '../src/base/threads/frames.ts'
import { queryService } from '../src/indexer/duckdb/query-runner.ts'

serveFrames(queryService())
