import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { type ExecutionPipeline, startExecution } from '../../src/streams/flows/execution.ts'
import { EventLog } from '../../src/streams/log/log.ts'
import type { ExecutionSourceSection } from '../../src/upstream/execution/config.ts'
import { EventRingWriter } from '../testkit/event-ring-writer.ts'
import { EventScript } from '../testkit/event-script.ts'
import { until } from '../testkit/execution-pipeline.ts'
import { hangMs } from '../testkit/until.ts'
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

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

async function start(section = embedded, meters = new Meters()) {
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
    meters,
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

test('what a ring has while its reader restarts is a Gap, and no block gets the end of another', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-ring-'))
  folders.push(folder)
  const path = join(folder, 'ring')
  const ring = new EventRingWriter(path)
  const script = new EventScript(ring)
  const meters = new Meters()
  // The reader joins at what the ring has.
  script.start(1)
  ring.flush()
  const { events, pipeline } = await start({ ...embedded, source: 'ring', path }, meters)
  const framesOf = (kind: string) =>
    [...events.after(0)]
      .filter((frame) => frame.kind === kind)
      .map((frame) => JSON.parse(frame.payload.toString()))
  let number = 1
  const blocks = (isDone: () => boolean) =>
    until(() => {
      script.start(++number)
      script.header(0)
      script.end()
      ring.flush()
      return isDone()
    })
  await blocks(() => events.appended('ContentionData') >= 2)
  const open = ++number
  script.start(open)
  const lost = script.header(0)
  ring.flush()
  await until(() => pipeline.lifecycle(open) !== null)
  pipeline.restartSource()
  const figures = async () => (await meters.render('text')).body
  await expect.poll(figures, { timeout: hangMs }).toContain('sluice_source_restarts_total 1\n')
  script.header(1)
  script.end()
  ring.flush()
  const before = events.appended('ContentionData')
  await blocks(() => events.appended('ContentionData') >= before + 2)
  const gaps = framesOf('Gap') as { from: number; to: number }[]
  const analysed = framesOf('ContentionData').map(({ block_number }) => block_number)
  expect(analysed).not.toContain(open)
  expect(gaps).toHaveLength(1)
  expect(gaps[0]!.from).toBeLessThanOrEqual(lost + 1)
  expect(gaps[0]!.to).toBeGreaterThan(lost)
  expect(pipeline.lifecycle(open)).not.toHaveProperty('eth_block_hash')
})

test('a missing recording fails the start without a retry', async () => {
  const starting = start({ ...embedded, source: 'snapshot', path: '/nowhere/events.zst' })
  await expect(starting).rejects.toThrow('metrics.path: the recording cannot be read')
})
