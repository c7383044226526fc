// Child process of the indexer that runs customers' queries, one at a time. It keeps no state and
// can be killed at any time. Thread: main of its own process.
import { queryService } from '../src/products/indexer/duckdb/serve-queries.ts'
import { serveFrames } from '../src/threads/frames.ts'

serveFrames(queryService())
