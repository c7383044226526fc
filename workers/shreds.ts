// Worker thread of ShredStream: receives shreds and forwards each one.
import { parentPort, workerData } from 'node:worker_threads'
import { ControlWord } from '../src/base/rings/layout.ts'
import { runShreds, type ShredWorkerData } from '../src/products/shredstream/handle.ts'

const data = workerData as ShredWorkerData
const control = new ControlWord(data.control)
const port = parentPort!

await runShreds(data, {
  ready: () => port.postMessage('ready'),
  post: (message) => port.postMessage(message),
  isStopped: () => control.isStopped,
})
process.exit(0)
