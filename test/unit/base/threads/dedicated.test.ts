// A dedicated worker: its deaths are detected and counted, and it is restarted.
import { afterEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../../../src/base/clock.ts'
import type { Fault } from '../../../../src/base/errors.ts'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { DedicatedWorker } from '../../../../src/base/threads/supervisor.ts'

const entry = new URL('../../../testkit/workers/dedicated.mjs', import.meta.url)
const backoff = { firstMs: 1, lastMs: 20, deathsMax: 4, healthyMs: 60_000 }
let running: DedicatedWorker | null = null

interface Setup {
  readonly loops?: 'until stopped' | 'for ever'
  readonly beforeReady?: number
  readonly stopMsMax?: number
}

async function start(setup: Setup = {}) {
  const lives = new SharedArrayBuffer(4)
  const faults: Fault[] = []
  const messages: unknown[] = []
  let counted = 0
  const { beforeReady = 0, loops, ...options } = setup
  running = await DedicatedWorker.start(
    {
      name: 'test',
      entry,
      data: { lives, loops, dieAtLife: { beforeReady } },
      backoff,
      onMessage: (message) => messages.push(message),
      ...options,
    },
    {
      clock: systemClock,
      log: silentLog,
      restarts: { inc: () => (counted += 1) },
      onDown: (fault) => faults.push(fault),
    },
  )
  const livesSoFar = () => Atomics.load(new Int32Array(lives), 0)
  return { worker: running, faults, messages, livesSoFar, counted: () => counted }
}

const deadline = { timeout: 20_000 }

afterEach(async () => {
  await running?.stop()
  running = null
})

describe('dedicated worker', () => {
  it('is restarted after an exit and after a throw, and both are counted', async () => {
    const { worker, messages, livesSoFar, counted, faults } = await start()
    for (const [index, death] of ['exit', 'throw'].entries()) {
      expect(worker.post(death)).toBe(true)
      await expect.poll(() => worker.restarts, deadline).toBe(index + 1)
      await expect.poll(() => worker.isRunning && livesSoFar(), deadline).toBe(index + 2)
    }
    await expect.poll(() => worker.post('echo'), deadline).toBe(true)
    await expect.poll(() => messages, deadline).toContainEqual({ life: 3 })
    // A warning of a start is a message as any other, and not that it is ready.
    expect(messages).toEqual([{ starts: 1 }, { starts: 2 }, { starts: 3 }, { life: 3 }])
    expect(counted()).toBe(2)
    expect(faults).toEqual([])
  })

  it('is not restarted and reports a fault when it dies too often in a row', async () => {
    const { worker, faults } = await start()
    const deaths = setInterval(() => worker.post('exit'), 5)
    await expect.poll(() => faults.length, deadline).toBe(1)
    clearInterval(deaths)
    expect(faults[0]).toMatchObject({
      kind: 'component-down',
      message: 'test exited with code 7, 4 times in a row',
    })
    expect(worker.restarts).toBe(3)
  })

  it('reports a first start that fails to the caller', async () => {
    await expect(start({ beforeReady: 1 })).rejects.toMatchObject({
      kind: 'worker-start',
      message: 'worker test threw: no start today',
    })
  })

  it('stops a loop by the control word, and terminates one that ignores it', async () => {
    const good = await start({ loops: 'until stopped', stopMsMax: 60_000 })
    await good.worker.stop()
    expect(good.worker.isRunning).toBe(false)
    const deaf = await start({ loops: 'for ever', stopMsMax: 50 })
    await deaf.worker.stop()
    expect(deaf.worker.isRunning).toBe(false)
    expect(deaf.worker.restarts).toBe(0)
  })
})
