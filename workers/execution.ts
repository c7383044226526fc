// Worker thread of the execution source: opens it, runs it, writes its events to the rings.
// Thread: source. Stopped by its control word and a message; see src/streams/analysis/feed.ts.
import { parentPort, workerData } from 'node:worker_threads'
import { ControlWord } from '../src/base/rings/layout.ts'
import { type TapMemory, TapWriter } from '../src/base/rings/tap.ts'
import { EventFeed } from '../src/streams/analysis/feed.ts'
import type { AnalysisMemory } from '../src/streams/analysis/memory.ts'
import type { ExecutionSourceSection } from '../src/upstream/execution/config.ts'
import { openExecutionSource, TappedSink } from '../src/upstream/execution/open.ts'

// Reason for the cast: flows/execution.ts fills workerData with exactly this.
const { memory, section, isLossless, originMs, tap, control } = workerData as {
  memory: AnalysisMemory
  section: ExecutionSourceSection
  isLossless: boolean
  originMs: number
  tap: TapMemory | null
  control: SharedArrayBuffer
}
const word = new ControlWord(control)
const feed = new EventFeed(memory, {
  isLossless,
  nowMs: () => Number(process.hrtime.bigint()) / 1e6 - originMs,
  isStopping: () => word.isStopped,
})
const source = openExecutionSource(section, {
  onProgress: (progress) => parentPort?.postMessage({ progress }),
})
parentPort?.on('message', (message) => {
  if (message !== 'stop') return
  source.stop()
  parentPort?.close()
})
parentPort?.postMessage('ready')
// The open port keeps the thread alive after the end of a recording: a source that has ended
// must look like a silent one.
await source.run(tap === null ? feed : new TappedSink(feed, new TapWriter(tap)))
feed.end()
