// Worker thread of one connection of `sluice bench race`: stamps and posts what it shows.
import { parentPort, workerData } from 'node:worker_threads'
import { type ObserverData, ObserverThread } from '../src/loadtest/race/observe.ts'

const port = parentPort!
const thread = new ObserverThread(workerData as ObserverData, (report) => port.postMessage(report))

port.on('message', (message) => {
  if (message !== 'stop') return
  thread.stop()
  port.close()
})
