// Preloaded into a server (`--expose-gc --import`): SIGUSR2 collects garbage and then writes what
// the main thread retains, and the process has, to the file of MEMORY_PROBE.
import { renameSync, writeFileSync } from 'node:fs'
import { isMainThread } from 'node:worker_threads'

const file = process.env.MEMORY_PROBE
let count = 0

if (isMainThread && file !== undefined)
  process.on('SIGUSR2', () => {
    globalThis.gc()
    // Memory outside the heap is given back after the collection that found it free.
    setImmediate(() => {
      globalThis.gc()
      const { heapUsed, external, rss } = process.memoryUsage()
      const sample = { count: ++count, retained: heapUsed + external, resident: rss }
      writeFileSync(`${file}.new`, JSON.stringify(sample))
      renameSync(`${file}.new`, file)
    })
  })
