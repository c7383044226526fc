// Worker thread of a set's stream log.
import { parentPort, workerData } from 'node:worker_threads'
import {
  type LogBounds,
  type LogRequest,
  LogThread,
} from '../src/streams/segments/segment-writer.ts'

const port = parentPort!
const { folder, bounds } = workerData as { readonly folder: string; readonly bounds: LogBounds }
const thread = new LogThread(folder, bounds, (report) =>
  port.postMessage(report, report.kind === 'took' ? [report.chunk] : []),
)

port.on('message', (request: LogRequest | 'stop') => {
  if (request !== 'stop') thread.take(request)
  else {
    thread.stop()
    process.exit(0)
  }
})
port.postMessage('ready')
