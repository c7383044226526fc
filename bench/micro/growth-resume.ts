// What an event and a resume cost as the resume buffer of the event log grows; it is full at every
// size, so that each new frame evicts the oldest. Thread: main of the bench process; each size is
// a process of its own.
import { systemClock } from '../../src/base/clock.ts'
import { EventLog } from '../../src/streams/log/log.ts'
import { growthBench, type OpenWorks } from '../lib/growth.ts'

const resumed = 10
const payload = Buffer.from(JSON.stringify({ tps: 1234, window: 'x'.repeat(480) }))

export const bench = growthBench({
  name: 'growth-resume',
  question: 'What does a larger resume buffer cost?',
  axis: 'frames in the buffer, which is full',
  sizes: [10, 100, 1_000, 10_000, 100_000],
  lines: ['append', 'resume after the last 10', 'resume of the whole buffer, per frame'],
  file: import.meta.url,
})

export const open: OpenWorks = async (size) => {
  let reserved = 1
  const reserve = (count: number) => {
    reserved += count
    return reserved - count
  }
  const log = new EventLog({ reserve, clock: systemClock, framesMax: size })
  for (let count = 0; count < size; count++) log.append('TPS', payload)
  let wrong = 0
  const resume = (frames: number) => {
    const cursor = log.newestSeq - frames
    let [bytes, count] = [0, 0]
    for (const frame of log.after(cursor)) {
      bytes += log.encoded(frame, 'json').length
      count++
    }
    if (!log.canResume(cursor) || count !== frames || bytes < frames * payload.length) wrong++
    return count
  }
  const problem = () => (wrong === 0 ? undefined : `${wrong} resumes lacked frames`)
  return {
    append: {
      stepsPerTurn: 64,
      step() {
        log.append('TPS', payload)
        return 1
      },
      problem: () => (log.frames === size ? undefined : `${log.frames} frames are kept`),
    },
    'resume after the last 10': {
      stepsPerTurn: 64,
      step() {
        resume(resumed)
        return 1
      },
      problem,
    },
    'resume of the whole buffer, per frame': { step: () => resume(size), problem },
  }
}
