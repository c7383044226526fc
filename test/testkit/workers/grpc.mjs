// The thread of a gRPC endpoint, which a call with the token `crash` ends. It logs each message that
// it passes on by itself.
import { parentPort, workerData } from 'node:worker_threads'
import { GrpcThreadCalls } from '../../../dist/src/base/transport/grpc-thread-calls.js'

const calls = new GrpcThreadCalls(workerData, (events) => {
  if (events.some((event) => event.kind === 'call' && event.peer.xToken === 'crash'))
    throw new Error('crash requested by a test')
  const logged = { kind: 'log', level: 'info', area: null, msg: 'passed on', fields: {} }
  parentPort.postMessage([
    ...events,
    ...events.flatMap(({ kind }) => (kind === 'message' ? [logged] : [])),
  ])
})
parentPort.on('message', (request) => {
  if (request !== 'stop') calls.take(request)
  else void calls.stop().then(() => process.exit(0))
})
await calls.open()
parentPort.postMessage('ready')
