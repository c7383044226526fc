// Preloaded into a server (`--expose-gc --import`): SIGUSR2 collects garbage and then writes what
// the main thread and that of gRPC's connections retain, and the process has, to the file of
// MEMORY_PROBE.
import { renameSync, writeFileSync } from 'node:fs'
import { BroadcastChannel, isMainThread, workerData } from 'node:worker_threads'

const file = process.env.MEMORY_PROBE
const channel = new BroadcastChannel('memory-probe')
channel.unref()

/**
 * Collects the garbage of this thread.
 * @param {(retained: number) => void} done
 */
function collect(done) {
  globalThis.gc()
  // Memory outside the heap is given back after the collection that found it free.
  setImmediate(() => {
    globalThis.gc()
    const { heapUsed, external } = process.memoryUsage()
    done(heapUsed + external)
  })
}

function measure() {
  let count = 0
  let hasConnections = false
  /** @type {(others: number) => void} */
  let answered = () => {}
  channel.onmessage = ({ data }) => {
    if (data === 'started') hasConnections = true
    else answered(data)
  }
  process.on('SIGUSR2', () =>
    collect((own) => {
      answered = (others) => {
        const resident = process.memoryUsage.rss()
        const sample = { count: ++count, retained: own + others, resident }
        writeFileSync(`${file}.new`, JSON.stringify(sample))
        renameSync(`${file}.new`, file)
      }
      if (hasConnections) channel.postMessage('collect')
      else answered(0)
    }),
  )
}

if (file !== undefined) {
  if (isMainThread) measure()
  else if (workerData?.scarcity !== undefined) {
    channel.onmessage = () => collect((retained) => channel.postMessage(retained))
    channel.postMessage('started')
  }
}
