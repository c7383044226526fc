// The shred worker, with a shared word by which a test crashes it in the middle of its work.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { parentPort, workerData } from 'node:worker_threads'
import { ControlWord } from '../../../dist/src/base/rings/layout.js'
import { runShreds } from '../../../dist/src/products/shredstream/handle.js'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc')
const control = new ControlWord(workerData.control)
const fate = new Int32Array(workerData.fate)

await runShreds(workerData, {
  ready: () => parentPort.postMessage('ready'),
  post: (message) => parentPort.postMessage(message),
  isStopped() {
    const death = Atomics.exchange(fate, 0, 0)
    if (death === 1) throw new Error('crash requested by a test')
    if (death === 2) process.exit(7)
    if (death === 3) collect()
    return control.isStopped
  },
})
process.exit(0)
