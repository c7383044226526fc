// ShredStream with `io: poll`: the worker's thread is pinned, forwards, and stops; what the warm-up
// sends, and the pauses that the worker counts.
import { readdirSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { afterEach, describe, expect, test } from 'vitest'
import { loadLibc } from '../../src/base/transport/udp-batch.ts'
import { coresOf, pollCoreOf } from '../../src/products/shredstream/core.ts'
import type { WorkerSettings } from '../../src/products/shredstream/shred-components.ts'
import { warmUp } from '../../src/products/shredstream/warm-up.ts'
import { makeShreds } from '../testkit/shreds.ts'
import { asTexts, ShredStage } from '../testkit/shredstream.ts'
import { until } from '../testkit/until.ts'

let stage: ShredStage | null = null

afterEach(async () => {
  await stage?.dispose()
  stage = null
})

const shreds = makeShreds({ slots: 1, sets: 2 })
const hasSpareCore = process.platform === 'linux' && availableParallelism() > 1

/** Threads of this process that may run on that core only. */
function pinnedTo(core: number): string[] {
  return readdirSync('/proc/self/task').filter((thread) => {
    try {
      const status = readFileSync(`/proc/self/task/${thread}/status`, 'utf8')
      return new RegExp(`^Cpus_allowed_list:\\s*${core}$`, 'm').test(status)
    } catch {
      // It ended meanwhile.
      return false
    }
  })
}

describe.skipIf(!hasSpareCore)('io: poll', () => {
  test('pins one thread to the core, forwards every shred, and frees the core at stop', async () => {
    const core = pollCoreOf(-1)
    expect(pinnedTo(core)).toEqual([])
    stage = await ShredStage.open({ io: 'poll' })
    expect(stage.product.report()).toMatchObject({ core })
    expect(pinnedTo(core)).toHaveLength(1)
    const receiver = await stage.receiver()
    stage.subscribe(receiver.port)
    await until(() => stage!.destinations().length === 1, 'destination')
    await stage.settled()
    await stage.send(shreds)
    await until(() => receiver.packets.length >= shreds.length, 'all shreds')
    expect(asTexts(receiver.packets)).toEqual(asTexts(shreds))
    await stage.product.stop()
    await until(() => pinnedTo(core).length === 0, 'the thread ended')
  })

  test('takes a configured core', async () => {
    const status = readFileSync('/proc/self/status', 'utf8')
    const core = coresOf(/^Cpus_allowed_list:\s*(\S+)$/m.exec(status)![1]!)[0]!
    stage = await ShredStage.open({ io: 'poll', core })
    expect(stage.product.report()).toMatchObject({ core })
    expect(pinnedTo(core)).toHaveLength(1)
  })

  test('does not start on a core that the process may not use', async () => {
    await expect(ShredStage.open({ io: 'poll', core: 1023 })).rejects.toThrow(
      'shredstream.core: 1023 is not a core that this process may use',
    )
  })
})

test('io: batch pins no thread', async () => {
  stage = await ShredStage.open({ io: 'batch' })
  expect(stage.product.report().core).toBeNull()
  for (let core = 0; core < availableParallelism(); core += 1)
    if (availableParallelism() > 1) expect(pinnedTo(core)).toEqual([])
})

test('pauses of the worker are counted by cause, also its garbage collections', async () => {
  stage = await ShredStage.open({ io: 'batch' })
  const source = await stage.source()
  const countOf = async (cause: string) => {
    const { body } = await stage!.meters.render('text')
    const line = `sluice_shreds_pause_seconds_count{cause="${cause}"} `
    return Number(
      body
        .split('\n')
        .find((text) => text.startsWith(line))
        ?.slice(line.length),
    )
  }
  await until(async () => {
    await stage!.send(shreds, source)
    return (await countOf('forward')) > 0
  }, 'a pause for forwarding')
  await until(async () => {
    stage!.strike('collect')
    return (await countOf('gc')) > 0
  }, 'a garbage collection')
})

test('every shred of the warm-up passes the checks of the worker', async () => {
  const libc = await loadLibc()
  if (libc === null) return
  // Reason for the cast: the warm-up replaces the addresses and takes these only.
  const caps = { packetsPerSecond: 1e6, bytesPerSecond: 1e9 }
  const settings = {
    io: 'batch',
    idle: 'sleep',
    version: 1,
    segments: true,
    caps,
  } as WorkerSettings
  expect(warmUp(libc, settings, 60_000)).toBeGreaterThan(4000)
  // A machine without time for it must not keep the worker from its start.
  expect(warmUp(libc, settings, 0)).toBeLessThan(100)
})
