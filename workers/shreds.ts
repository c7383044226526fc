// Worker thread of ShredStream: receives shreds and forwards each one.
import { parentPort, workerData } from 'node:worker_threads'
import { runShreds, type ShredWorkerData } from '../src/products/shredstream/handle.ts'
import { ControlWord } from '../src/rings/control.ts'

const data = workerData as ShredWorkerData
const control = new ControlWord(data.control)
const port = parentPort!

await runShreds(data, {
  ready: () => port.postMessage('ready'),
  post: (message) => port.postMessage(message),
  isStopped: () => control.isStopped,
})
process.exit(0)
