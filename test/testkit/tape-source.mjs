// A source thread that plays a tape (tape.ts) through the compiled feed, as workers/execution.ts
// would a recording. At its n-th pause it waits until word 0 of `section.gate` is n.
import { parentPort, workerData } from 'node:worker_threads'
import { ControlWord } from '../../dist/src/base/rings/layout.js'
import { EventFeed } from '../../dist/src/streams/analysis/feed.js'

const { memory, section, isLossless, originMs, control } = workerData
const word = new ControlWord(control)
const feed = new EventFeed(memory, {
  isLossless,
  nowMs: () => Number(process.hrtime.bigint()) / 1e6 - originMs,
  isStopping: () => word.isStopped,
})
parentPort.on('message', (message) => {
  if (message === 'stop') parentPort.close()
})
parentPort.postMessage('ready')
const bytes = new Uint8Array(section.tape)
const view = new DataView(section.tape)
const gate = new Int32Array(section.gate)
let pauses = 0
for (let at = 0; at < bytes.length; ) {
  const length = view.getUint32(at, true)
  if (length === 0xffffffff) {
    feed.flush()
    pauses += 1
    while (Atomics.load(gate, 0) < pauses && !word.isStopped) Atomics.wait(gate, 0, pauses - 1, 100)
    at += 4
    continue
  }
  if (length === 0) {
    feed.gap(view.getFloat64(at + 4, true), view.getFloat64(at + 12, true))
    at += 20
    continue
  }
  feed.event(bytes.subarray(at + 4, at + 68), bytes.subarray(at + 68, at + 4 + length))
  at += 4 + length
}
feed.end()
