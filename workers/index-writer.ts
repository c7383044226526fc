// Child process of the index's writer: reads the gateway's streams and stores their rows.
// Thread: main of its own process.
import { exitNow } from '../src/base/exit.ts'
import { serveFrames } from '../src/base/threads/frames.ts'
import { IndexProgram } from '../src/indexer/program.ts'
import { openSink } from '../src/indexer/writer.ts'

// Only the server may read what DuckDB creates; files that queries read are shared one by one.
process.umask(0o077)

const program = new IndexProgram(openSink, {
  wrote: (write) => service.push('wrote', write),
  failed: (message) => service.push('failed', message),
  parts: (counts) => service.push('parts', counts),
  superseded(message) {
    service.push('failed', message)
    setImmediate(() => exitNow(1))
  },
  report: (report) => service.push('report', report),
  async trying(name) {
    service.push('trying', name)
    do await new Promise((resolve) => setImmediate(resolve))
    while (service.unsentBytes > 0)
  },
  dropped: (delivery) => service.push('dropped', delivery),
  gateway: (change) => service.push('gateway', change),
})

const service = serveFrames(
  {
    open: (config: Parameters<IndexProgram['open']>[0]) => program.open(config),
    drain: (positions: Parameters<IndexProgram['drain']>[0]) => program.drain(positions),
  },
  () => program.stop(),
)
