// Worker thread of the gRPC endpoint: its connections.
import { parentPort, workerData } from 'node:worker_threads'
import {
  GrpcThreadCalls,
  type GrpcThreadData,
  type GrpcThreadRequest,
} from '../src/base/transport/grpc-thread-calls.ts'

const port = parentPort!
const calls = new GrpcThreadCalls(workerData as GrpcThreadData, (events) =>
  port.postMessage(events),
)
port.on('message', (request: GrpcThreadRequest) => {
  if (request !== 'stop') calls.take(request)
  else void calls.stop().then(() => process.exit(0))
})
await calls.open()
port.postMessage('ready')
