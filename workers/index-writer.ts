// Child process of the indexer's writer: receives deliveries over the pipe and stores their rows.
// Thread: main of its own process.

import { serveFrames } from '../src/base/threads/frames.ts'
import { IndexWriter, openSink } from '../src/indexer/writer.ts'

// Only the server may read what DuckDB creates; files that queries read are shared one by one.
process.umask(0o077)

const writer = new IndexWriter(openSink, {
  wrote: (write) => service.push('wrote', write),
  failed: (message) => service.push('failed', message),
  parts: (counts) => service.push('parts', counts),
})

const service = serveFrames(
  {
    open: (config: Parameters<IndexWriter['open']>[0]) => writer.open(config),
    take: (delivery: Parameters<IndexWriter['take']>[0]) => writer.take(delivery),
    flush: () => writer.flush(),
    extend: async (untilMs: number) => writer.extend(untilMs),
  },
  () => writer.stop(),
)
