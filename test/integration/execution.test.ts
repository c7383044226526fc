import { Worker } from 'node:worker_threads'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import type { ExecutionPipeline } from '../../src/streams/flows/execution.ts'
import type { FrameKind } from '../../src/streams/log/encoded.ts'
import { Bench } from '../testkit/analysis.ts'
import { caseCount } from '../testkit/case-count.ts'
import { addressOf, EventScript, idOf } from '../testkit/event-script.ts'
import {
  type Frame,
  type PlayedTape,
  playSource,
  playTape,
  until,
} from '../testkit/execution-pipeline.ts'
import { tpsSequence } from '../testkit/oracle.ts'
import { realData } from '../testkit/real-data.ts'
import { Recording } from '../testkit/recording.ts'
import { Tape } from '../testkit/tape.ts'
import { wholeText } from '../testkit/whole-text.ts'

const pipelines: ExecutionPipeline[] = []
afterEach(async () => {
  for (const pipeline of pipelines.splice(0)) await pipeline.stop()
})

async function play(tape: Tape, options: Parameters<typeof playTape>[1] = {}): Promise<PlayedTape> {
  const played = await playTape(tape, options)
  pipelines.push(played.pipeline)
  return played
}

/** Blocks with a few accesses each; every block goes through all its stages. */
function chain(script: EventScript, from: number, count: number): void {
  for (let number = from; number < from + count; number++) {
    script.start(number, { txns: 2 })
    for (let txn = 0; txn < 2; txn++) {
      script.header(txn)
      script.account(addressOf(number % 7), txn)
      script.storage({ txn, address: addressOf(1), slot: idOf(number % 5), writes: txn === 0 })
    }
    script.end()
    script.qc(number)
    script.finalized(number)
    script.verified(number)
  }
}

const kinds = (frames: readonly Frame[]) => frames.map((frame) => frame.kind)
const perBlock = [
  'TPS',
  'Lifecycle',
  'TopAccesses',
  'ContentionData',
  'Lifecycle',
  'Lifecycle',
  'Lifecycle',
]

describe('the execution pipeline', () => {
  test('publishes TPS then Lifecycle at BlockStart, TopAccesses then ContentionData at BlockEnd', async () => {
    const tape = new Tape()
    const script = new EventScript(tape)
    chain(script, 1, 50)
    const startedMs = systemClock.monotonicMs()
    const { frames, ended, pipeline } = await play(tape, { workers: 2 })
    await ended
    const endedMs = systemClock.monotonicMs()
    expect(kinds(frames)).toEqual(Array.from({ length: 50 }, () => perBlock).flat())
    const numbers = frames
      .filter((frame) => frame.kind === 'ContentionData')
      .map((frame) => JSON.parse(frame.json).block_number)
    expect(numbers).toEqual(Array.from({ length: 50 }, (_, index) => index + 1))
    expect(pipeline.latestBlock()).toBe(50)
    expect(pipeline.ringSeqno()).toBe(script.seqno)
    expect(pipeline.chainId()).toBe(20143n)
    // The last event was read between the start and the end.
    const leastMs = systemClock.monotonicMs() - endedMs
    const ageMs = pipeline.lastEventAgeMs()
    expect(ageMs).toBeGreaterThan(leastMs)
    expect(ageMs).toBeLessThan(systemClock.monotonicMs() - startedMs)
  })

  test('a snapshot that is played once is not restarted after its end', async () => {
    const tape = new Tape()
    chain(new EventScript(tape), 1, 5)
    const { ended, meters, pipeline } = await play(tape)
    await ended
    pipeline.restartSource()
    await pipeline.stop()
    const { body } = await meters.render('text')
    expect(body).toMatch(/^sluice_source_restarts_total 0$/m)
  })

  test('gives the same frames whatever the number of workers', async () => {
    const tape = new Tape()
    chain(new EventScript(tape), 1, 60)
    const one = await play(tape, { workers: 1 })
    await one.ended
    const three = await play(tape, { workers: 3 })
    await three.ended
    expect(three.frames).toEqual(one.frames)
  })

  test('publishes a Gap for a block that was not seen whole, and continues', async () => {
    const tape = new Tape()
    const script = new EventScript(tape)
    chain(script, 1, 2)
    script.start(3, { txns: 1 })
    script.header(0)
    const from = script.seqno + 1
    script.seqno += 10
    tape.gap(from, script.seqno)
    script.header(1)
    script.end()
    chain(script, 4, 2)
    const { frames, ended, pipeline } = await play(tape)
    await ended
    const gapAt = kinds(frames).indexOf('Gap')
    expect(kinds(frames).slice(0, gapAt + 1)).toEqual([
      ...perBlock,
      ...perBlock,
      'TPS',
      'Lifecycle',
      'Gap',
    ])
    // The time of the last block-level event before it.
    const { at_ms } = JSON.parse(frames[gapAt - 1]!.json)
    expect(JSON.parse(frames[gapAt]!.json)).toEqual({ from, to: from + 9, at_ms })
    expect(kinds(frames).slice(gapAt + 1)).toEqual([...perBlock, ...perBlock])
    // The half-seen block counts 0: 2 + 0 / 2.
    expect(frames[gapAt + 1]!.json).toBe('4')
    expect(pipeline.block(3)).toBeNull()
    expect(wholeText(pipeline.block(4)!.text(false)).transactions).toHaveLength(2)
    expect(pipeline.lifecycle(3)).toMatchObject({ current_stage: 'Proposed', gas_used: 21_000 })
  })

  test('loses nothing at full speed: backpressure makes the source wait for the analysis', async () => {
    const tape = new Tape()
    const script = new EventScript(tape)
    for (let number = 1; number <= 300; number++) {
      script.start(number)
      for (let index = 0; index < 50; index++) script.account(addressOf(index), 0)
      script.end()
    }
    const { frames, ended } = await play(tape, { ringBytes: 1024 * 1024 })
    await ended
    expect(kinds(frames).filter((kind) => kind === 'Gap')).toEqual([])
    expect(kinds(frames).filter((kind) => kind === 'ContentionData')).toHaveLength(300)
  })

  test('publishes a Gap for every lost block where the source may overrun its readers', async () => {
    const tape = new Tape()
    const script = new EventScript(tape)
    const ranges: { from: number; to: number }[] = []
    for (let number = 1; number <= 2500; number++) {
      // First as fast as it goes, then one by one, so that something follows the loss.
      if (number > 1500) tape.pause()
      const from = script.start(number)
      for (let index = 0; index < 20; index++) script.account(addressOf(index), 0)
      ranges[number] = { from, to: script.end() }
    }
    const { frames, pipeline, release } = await play(tape, {
      ringBytes: 512 * 1024,
      isLossless: false,
    })
    await until(() => pipeline.ringSeqno() === ranges[1500]!.to)
    await until(() => {
      if (pipeline.latestBlock() <= 1500) release()
      return pipeline.latestBlock() > 1500
    })
    const last = pipeline.latestBlock()
    const gaps = frames.filter(({ kind }) => kind === 'Gap').map(({ json }) => JSON.parse(json))
    const analysed = new Set(
      frames
        .filter(({ kind }) => kind === 'ContentionData')
        .map(({ json }) => JSON.parse(json).block_number as number),
    )
    expect(gaps.length).toBeGreaterThan(0)
    expect(analysed.size).toBeLessThan(last)
    for (const [number, range] of ranges.entries()) {
      if (range === undefined || number > last) continue
      const isLost = gaps.some(({ from, to }) => from <= range.to && to >= range.from)
      expect([number, analysed.has(number)]).toEqual([number, !isLost])
    }
    // What was counted is right: each analysed block adds one access per account.
    const top = frames.findLast((frame) => frame.kind === 'TopAccesses')!
    expect(JSON.parse(top.json).account[0].count).toBe(analysed.size)
  })

  test('keeps the last 128 blocks and finds them by number and tag', async () => {
    const tape = new Tape()
    const script = new EventScript(tape)
    chain(script, 1, 130)
    script.start(131)
    script.header(0)
    script.end()
    script.qc(131)
    script.start(132)
    script.end()
    script.start(133)
    const { pipeline, ended } = await play(tape)
    await ended
    expect(pipeline.block('earliest')?.number).toBe(5)
    expect(pipeline.block(4)).toBeNull()
    expect(wholeText(pipeline.block(131)!.text(true))).toMatchObject({
      number: '0x83',
      gasUsed: '0x5208',
    })
    expect(pipeline.block('latest')?.number).toBe(132)
    expect(pipeline.block('safe')?.number).toBe(131)
    expect(pipeline.block('finalized')?.number).toBe(130)
    expect(pipeline.lifecycles().at(-1)).toMatchObject({
      block_number: 133,
      current_stage: 'Proposed',
    })
  })

  test('stops within its timeout while the source waits for ring space', async () => {
    const tape = new Tape()
    const script = new EventScript(tape)
    for (let number = 1; number <= 400; number++) {
      script.start(number)
      for (let index = 0; index < 50; index++) script.account(addressOf(index), 0)
      script.end()
    }
    const { pipeline, frames } = await play(tape, { ringBytes: 512 * 1024 })
    await until(() => frames.length > 0)
    await pipeline.stop()
    const told = frames.length
    await new Promise((resolve) => setImmediate(resolve))
    expect(frames).toHaveLength(told)
  })
})

/** The fields that the projector adds to ContentionData; the analysis does not know them. */
const ownFields = /"block_hash":"0x[0-9a-f]{64}","at_ms":\d{13},/

/** Keeps a core busy until it is terminated. */
const busyLoop = 'for (;;);'

const stall = new Int32Array(new SharedArrayBuffer(4))
const recordedBlocks = 30
/** Some five blocks. */
const ringBytes = 2 * 1024 * 1024
const recorded = realData('execution/emn-30b-15m.snapshot.zst')

describe.skipIf(recorded.isMissing)(recorded.title('the pipeline on the real recording'), () => {
  const tape = new Tape()
  const bench = new Bench()

  beforeAll(() => {
    const recording = new Recording(recorded.path)
    recording.play(tape)
    recording.play(bench.feed)
  })

  test('gives the frames of the single-threaded analysis, byte for byte, in two runs', async () => {
    const expected = bench.drain().flatMap(({ result }) => {
      if (result.outcome !== 'done') throw new Error('every block is analysed')
      return [result.top, result.contention].map((bytes) => Buffer.from(bytes).toString('utf8'))
    })
    const runs: Frame[][] = []
    for (const workers of [1, 2]) {
      const { frames, ended } = await play(tape, { workers })
      await ended
      runs.push(frames)
      const analysed = frames.filter(({ kind }) => /TopAccesses|ContentionData/.test(kind))
      expect(analysed.map((frame) => frame.json.replace(ownFields, ''))).toEqual(expected)
      const tps = frames.filter(({ kind }) => kind === 'TPS').map(({ json }) => Number(json))
      expect(tps).toEqual(tpsSequence)
      const moves = frames.filter(({ kind }) => kind === 'Lifecycle')
      expect(moves).toHaveLength(119)
    }
    expect(runs[1]).toEqual(runs[0])
  })

  test('loses no block of a loop at full speed beside two busy threads', async () => {
    const busy: Worker[] = []
    try {
      const section = {
        source: 'snapshot',
        path: recorded.path,
        speed: 'full',
        loop: true,
        generator: { seed: 1, tps: 0, skew: 0, blockMs: 400 },
      } as const
      // Beyond the end of the recording, where the loop begins anew.
      const blocks = recordedBlocks + caseCount(5, 30)
      const numbers: number[] = []
      let gaps = 0
      const events = {
        append(kind: FrameKind, payload: Uint8Array) {
          if (kind === 'Gap') gaps += 1
          if (kind !== 'ContentionData') return 1
          numbers.push(JSON.parse(Buffer.from(payload).toString()).block_number)
          // A stalled reader: in this time the source alone would overwrite the ring.
          if (numbers.length % 10 === 0) Atomics.wait(stall, 0, 0, 100)
          return 1
        },
      }
      const { pipeline } = await playSource(section, { events, ringBytes, workers: 1 })
      pipelines.push(pipeline)
      await until(() => numbers.length > 0)
      for (let core = 0; core < 2; core++) busy.push(new Worker(busyLoop, { eval: true }))
      await until(() => numbers.length >= blocks || gaps > 0)
      await pipeline.stop()
      expect(gaps).toBe(0)
      expect(numbers).toEqual(numbers.map((_, index) => numbers[0]! + index))
    } finally {
      for (const worker of busy) await worker.terminate()
    }
  })
})
