import { afterEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { type ExecutionPipeline, startExecution } from '../../src/streams/flows/execution.ts'
import { EventLog } from '../../src/streams/log/log.ts'
import type { ExecutionSourceSection } from '../../src/upstream/execution/config.ts'
import { until } from '../testkit/execution-pipeline.ts'
import { wholeText } from '../testkit/whole-text.ts'

const pipelines: ExecutionPipeline[] = []
afterEach(async () => {
  for (const pipeline of pipelines.splice(0)) await pipeline.stop()
})

const embedded: ExecutionSourceSection = {
  source: 'embedded',
  path: '',
  speed: 'fixed',
  loop: false,
  generator: { seed: 7, tps: 500, skew: 0.9, blockMs: 40 },
}

async function start(section = embedded) {
  let reserved = 1
  const events = new EventLog({
    clock: systemClock,
    reserve(count) {
      reserved += count
      return reserved - count
    },
  })
  const pipeline = await startExecution(section, {
    events,
    clock: systemClock,
    log: silentLog,
    meters: new Meters(),
    onDown(fault) {
      throw fault
    },
  })
  pipelines.push(pipeline)
  return { events, pipeline }
}

describe('the execution pipeline on the embedded generator', () => {
  test('publishes all four frame kinds, and blocks that can be queried', async () => {
    const { events, pipeline } = await start()
    await until(
      () => events.appended('ContentionData') >= 5 && pipeline.block('finalized') !== null,
    )
    for (const kind of ['TPS', 'TopAccesses', 'Lifecycle'] as const)
      expect(events.appended(kind)).toBeGreaterThan(0)
    expect(events.appended('Gap')).toBe(0)
    expect(pipeline.chainId()).toBe(20143n)
    expect(pipeline.ringSeqno()).toBeGreaterThan(0)
    expect(pipeline.lastEventAgeMs()).toBeLessThan(10_000)
    const block = pipeline.block('latest')!
    const full = wholeText(block.text(true))
    const hashes = full.transactions.map(({ hash }) => hash)
    expect(wholeText(block.text(false))).toEqual({ ...full, transactions: hashes })
    expect(pipeline.lifecycle(block.number)).toMatchObject({ block_number: block.number })
  })

  test('continues after a restart of the source', async () => {
    const { events, pipeline } = await start()
    await until(() => events.appended('ContentionData') >= 2)
    const before = events.appended('ContentionData')
    pipeline.restartSource()
    await until(() => events.appended('ContentionData') >= before + 10)
    const numbers = [...events.after(0)]
      .filter((frame) => frame.kind === 'ContentionData')
      .map((frame) => JSON.parse(frame.payload.toString()).block_number as number)
    expect(numbers).toEqual([...numbers].sort((a, b) => a - b))
  })
})

test('a missing recording fails the start without a retry', async () => {
  const starting = start({ ...embedded, source: 'snapshot', path: '/nowhere/events.zst' })
  await expect(starting).rejects.toThrow('metrics.path: the recording cannot be read')
})
