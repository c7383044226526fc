// Worker thread of a set's geyser streams.
import { parentPort, workerData } from 'node:worker_threads'
import { Ingest, type IngestRequest } from '../src/upstream/geyser/ingest.ts'

const port = parentPort!
const { taken } = workerData as { readonly taken: SharedArrayBuffer }
const ingest = new Ingest(taken, (report, transfer = []) => port.postMessage(report, [...transfer]))

port.on('message', (request: IngestRequest | 'stop') => {
  if (request === 'stop') process.exit(0)
  ingest.take(request)
})
port.postMessage('ready')
