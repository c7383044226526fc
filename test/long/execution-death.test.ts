import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Worker } from 'node:worker_threads'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Meters } from '../../src/base/telemetry/meters.ts'
import type { ExecutionPipeline } from '../../src/streams/flows/execution.ts'
import { addressOf, EventScript, idOf } from '../testkit/event-script.ts'
import { type Frame, playTape, until } from '../testkit/execution-pipeline.ts'
import { Tape } from '../testkit/tape.ts'

const blocks = 40
const tape = new Tape()
const pipelines: ExecutionPipeline[] = []
let undisturbed: Frame[]

const folder = mkdtempSync(join(tmpdir(), 'sluice-death-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
let entries = 0

/** An entry that encodes how and when it dies: a pool takes a file and no arguments. */
function dying(mode: Record<string, string | number>): URL {
  entries += 1
  const path = join(folder, `${entries}.mjs`)
  const worker = new URL('../testkit/dying-analysis.mjs', import.meta.url)
  writeFileSync(
    path,
    `globalThis.deathMode = ${JSON.stringify(mode)}
     const { default: run } = await import(${JSON.stringify(worker.href)})
     export default run`,
  )
  return pathToFileURL(path)
}

async function retriesOf(meters: Meters): Promise<number> {
  const { body } = await meters.render('text')
  return Number(/^sluice_analysis_retries_total (\d+)/m.exec(body)?.[1])
}

async function play(options: Parameters<typeof playTape>[1]) {
  const played = await playTape(tape, options)
  pipelines.push(played.pipeline)
  return played
}

beforeAll(async () => {
  const script = new EventScript(tape)
  for (let number = 1; number <= blocks; number++) {
    script.start(number, { txns: 1 })
    script.header(0)
    for (let index = 0; index < 20; index++) script.account(addressOf((number * index) % 13), 0)
    script.storage({ txn: 0, address: addressOf(number % 3), slot: idOf(1), writes: true })
    script.end()
    script.qc(number)
  }
  const played = await play({ workers: 1 })
  await played.ended
  undisturbed = played.frames
})

afterEach(async () => {
  for (const pipeline of pipelines.splice(0)) await pipeline.stop()
})

describe('an analysis worker that dies in the middle of a block', () => {
  for (const how of ['exit', 'throw'])
    for (const when of ['before', 'during', 'after'])
      for (const workers of [1, 2])
        test(`${how} ${when} its turn, ${workers} workers: the block is retried`, async () => {
          const entry = dying({ how, when, every: 7, times: 1 })
          const { frames, ended, meters } = await play({ workers, analysisEntry: entry })
          await ended
          expect(frames).toEqual(undisturbed)
          expect(await retriesOf(meters)).toBe(Math.floor(blocks / 7))
        })

  test('terminate: the block is retried', async () => {
    const made: Worker[] = []
    const watch = (worker: Worker) => made.push(worker)
    process.on('worker', watch)
    const hanging = join(folder, 'hanging')
    mkdirSync(hanging)
    try {
      const mode = { how: 'hang', when: 'during', every: 11, times: 1, folder: hanging }
      const { frames, ended } = await play({ workers: 2, analysisEntry: dying(mode) })
      let isEnded = false
      void ended.then(() => {
        isEnded = true
      })
      let terminated = 0
      await until(() => {
        for (const threadId of readdirSync(hanging)) {
          rmSync(join(hanging, threadId))
          void made.find((worker) => worker.threadId === Number(threadId))?.terminate()
          terminated += 1
        }
        return isEnded
      })
      expect(terminated).toBe(Math.floor(blocks / 11))
      expect(frames).toEqual(undisturbed)
    } finally {
      process.off('worker', watch)
    }
  })

  for (const when of ['before', 'during', 'after'])
    test(`loops forever ${when} its turn: it is terminated, and the block is retried`, async () => {
      const entry = dying({ how: 'loop', when, every: 19, times: 1 })
      const { frames, ended, meters } = await play({ workers: 2, analysisEntry: entry })
      await ended
      expect(frames).toEqual(undisturbed)
      expect(await retriesOf(meters)).toBeGreaterThanOrEqual(Math.floor(blocks / 19))
    })

  test('loops forever with the same block each time: it becomes a Gap', async () => {
    const entry = dying({ how: 'loop', when: 'during', every: 27, times: 99 })
    const { frames, ended } = await play({ workers: 2, analysisEntry: entry })
    await ended
    expect(frames.filter((frame) => frame.kind === 'Gap')).toHaveLength(1)
    const analysed = frames.filter((frame) => frame.kind === 'ContentionData')
    expect(analysed).toHaveLength(blocks - 1)
  })

  test('fails on the same blocks each time: each becomes a Gap, and the stream continues', async () => {
    const entry = dying({ how: 'throw', when: 'before', every: 13, times: 99 })
    const { frames, ended, meters } = await play({ workers: 2, analysisEntry: entry })
    await ended
    const gaps = frames.filter((frame) => frame.kind === 'Gap').map(({ json }) => JSON.parse(json))
    expect(gaps).toHaveLength(Math.floor(blocks / 13))
    for (const gap of gaps) expect(gap.to).toBeGreaterThan(gap.from)
    const analysed = frames.filter((frame) => frame.kind === 'ContentionData')
    expect(analysed).toHaveLength(blocks - gaps.length)
    const { body } = await meters.render('text')
    expect(body).toContain(`sluice_analysis_blocks_total{outcome="failed"} ${gaps.length}`)
  })
})
