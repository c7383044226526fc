// Worker thread of a flight recording.
import { parentPort, workerData } from 'node:worker_threads'
import {
  type RecorderData,
  type RecorderRequest,
  RecorderThread,
} from '../src/operator/record/recorder-thread.ts'

/** Where no message comes. The rings have room for more than a thread gets meanwhile. */
const pollMs = 50

const port = parentPort!
const thread = new RecorderThread(workerData as RecorderData, (report) => port.postMessage(report))
thread.open()
const timer = setInterval(() => run(() => thread.poll()), pollMs)
port.on('message', (request: RecorderRequest) =>
  run(() => {
    thread.take(request)
    thread.poll()
    timer.refresh()
  }),
)
run(() => {})

function run(step: () => void): void {
  step()
  if (thread.isOpen) return
  clearInterval(timer)
  port.close()
}
