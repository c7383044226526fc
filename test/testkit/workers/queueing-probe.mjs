// Preloaded into a server (`--import`): appends to the file of QUEUEING_PROBE, two hundred times a
// second, how long the main thread delayed a timer by what it ran itself, and how long it waited
// for a core meanwhile, by the kernel's count. Two doubles a sample, in milliseconds.
import { openSync, readSync, writeSync } from 'node:fs'
import { isMainThread } from 'node:worker_threads'

const everyMs = 5
const file = process.env.QUEUEING_PROBE

if (isMainThread && file !== undefined) {
  const out = openSync(file, 'a')
  const schedstat = openSync(`/proc/self/task/${process.pid}/schedstat`, 'r')
  const text = Buffer.alloc(64)
  const used = () => {
    const length = readSync(schedstat, text, 0, text.length, 0)
    const [ran, waited] = text.toString('latin1', 0, length).split(' ')
    return { ranMs: Number(ran) / 1e6, waitedMs: Number(waited) / 1e6 }
  }
  let before = used()
  let dueMs = performance.now() + everyMs
  const look = () => {
    const now = used()
    const ranMs = now.ranMs - before.ranMs
    const waitedMs = now.waitedMs - before.waitedMs
    const ownMs = Math.max(0, Math.min(performance.now() - dueMs - waitedMs, ranMs))
    writeSync(out, new Float64Array([ownMs, waitedMs]))
    before = now
    dueMs = performance.now() + everyMs
    setTimeout(look, everyMs).unref()
  }
  setTimeout(look, everyMs).unref()
}
