// Child process of the indexer that runs customers' queries, one at a time. It keeps no state and
// can be killed at any time. Thread: main of its own process.
import { type QueryService, queryService } from '../src/products/indexer/duckdb/serve-queries.ts'
import { serveFrames } from '../src/threads/frames.ts'

const service = queryService()

serveFrames({
  open: (place: Parameters<QueryService['open']>[0]) => service.open(place),
  run: (job: Parameters<QueryService['run']>[0]) => service.run(job),
  refresh: (readable: Parameters<QueryService['refresh']>[0]) => service.refresh(readable),
  cancel: () => service.cancel(),
})
