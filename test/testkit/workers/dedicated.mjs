// A dedicated worker for tests: counts its lives in shared memory and does what it is told.
import { parentPort, workerData } from 'node:worker_threads'
import { ControlWord } from '../../../dist/src/base/rings/layout.js'

const { control, lives, dieAtLife, loops } = workerData
const life = Atomics.add(new Int32Array(lives), 0, 1) + 1
if (life <= dieAtLife.beforeReady) throw new Error('no start today')
parentPort.postMessage({ starts: life })
parentPort.postMessage('ready')
const word = new ControlWord(control)
const pause = () => Atomics.wait(new Int32Array(control), 0, 0, 1)

parentPort.on('message', (message) => {
  if (message === 'exit') process.exit(7)
  if (message === 'throw') throw new Error('told to')
  if (message === 'stop') parentPort.close()
  if (message === 'echo') parentPort.postMessage({ life })
})
if (loops === 'until stopped') while (!word.isStopped) pause()
if (loops === 'for ever') for (;;) pause()
if (loops === 'until stopped') process.exit(0)
