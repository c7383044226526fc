// A writer process at full speed against a reader that stalls repeatedly: every sequence number
// is delivered once or reported as lost, and no event carries another event's bytes.
import { afterEach, expect, test } from 'vitest'
import { TimerPacer } from '../../src/upstream/execution/playback.ts'
import { RingFile } from '../../src/upstream/execution/ring-file.ts'
import { SeenEvents } from '../testkit/execution-sink.ts'
import { isAsWritten, RingWriterProcess } from '../testkit/ring-writer.ts'
import { until } from '../testkit/until.ts'

const written = 1_500_000
const stallEvery = 20_011
const stallMsMax = 120

const writer = new RingWriterProcess()
const source = new RingFile({ path: writer.path }, new TimerPacer())
let running = Promise.resolve()

afterEach(async () => {
  source.stop()
  await running
  await writer.stop()
})

test('a reader that is overrun repeatedly never delivers a wrong event', async () => {
  const seen = new SeenEvents()
  const sleep = new Int32Array(new SharedArrayBuffer(4))
  let wrong = 0
  let first = 0
  seen.onEvent = (event) => {
    if (first === 0) first = event.seqno
    if (!isAsWritten(event)) wrong += 1
    if (seen.total % stallEvery === 0)
      Atomics.wait(sleep, 0, 0, (seen.total / stallEvery) % 2 === 0 ? stallMsMax : 3)
  }
  await writer.create()
  running = source.run(seen)
  await until(async () => {
    await writer.write({ kind: 'mixed', count: 1 })
    return seen.total > 0
  }, 'the reader to join')
  const last = await writer.write({ kind: 'mixed', count: written })
  await until(() => seen.lastSeqno === last, 'the last event')
  const lost = seen.gaps.reduce((sum, { from, to }) => sum + to - from + 1, 0)
  expect(seen.gaps.length).toBeGreaterThan(0)
  expect(seen.total + lost).toBe(last - first + 1)
  expect({ wrong, jumps: seen.jumps, misshapen: seen.misshapen }).toEqual({
    wrong: 0,
    jumps: 0,
    misshapen: 0,
  })
})
