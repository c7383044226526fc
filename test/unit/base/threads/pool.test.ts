// The worker pool: results, its queue limit, and workers that die during a job.
import { afterEach, describe, expect, it } from 'vitest'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { Pool } from '../../../../src/base/threads/pool.ts'
import { until } from '../../../testkit/until.ts'

const entry = new URL('../../../testkit/workers/job.mjs', import.meta.url)
let pool: Pool | null = null

function open(options: { threads?: number; queueMax?: number; data?: unknown } = {}): Pool {
  const { threads = 1, queueMax = 4, data } = options
  pool = new Pool({ entry, threads, queueMax, data }, { log: silentLog })
  return pool
}

afterEach(async () => {
  await pool?.stop()
  pool = null
})

describe('pool', () => {
  it('runs a job and passes its data to every worker', async () => {
    const answer = await open({ data: { shared: 5 } }).run({ does: 'answer', value: 42 })
    expect(answer).toEqual({ value: 42, data: 5 })
  })

  it('distinguishes a job that threw from a worker that died, and survives both', async () => {
    const jobs = open()
    const failed = jobs.run({ does: 'throw' })
    await expect(failed).rejects.toMatchObject({ kind: 'job-failed', message: 'the job threw' })
    for (let times = 1; times <= 3; times += 1) {
      const died = jobs.run({ does: 'exit' })
      await expect(died).rejects.toMatchObject({ kind: 'worker-died', retryable: true })
      expect(jobs.deaths).toBe(times)
    }
    await expect(jobs.run({ does: 'uncaught' })).rejects.toMatchObject({ name: 'Fault' })
    expect(await jobs.run({ does: 'answer', value: 1 })).toMatchObject({ value: 1 })
  })

  it('terminates the worker of a job that hangs, and recovers', async () => {
    const gate = new SharedArrayBuffer(4)
    const jobs = open()
    await jobs.run({ does: 'answer' })
    for (let times = 1; times <= 2; times += 1) {
      const end = new AbortController()
      const hung = jobs.run({ does: 'loop', gate }, end.signal)
      const beats = new Int32Array(gate)
      await until(() => Atomics.exchange(beats, 0, 0) > 0, 'the job to run')
      end.abort()
      await expect(hung).rejects.toMatchObject({ kind: 'worker-hung', retryable: true })
      // Rejected only after the thread has exited: nothing writes to shared memory any more.
      Atomics.store(beats, 0, 0)
      expect(await jobs.run({ does: 'answer', value: times })).toMatchObject({ value: times })
      expect(Atomics.load(beats, 0)).toBe(0)
      expect(jobs.deaths).toBe(times)
    }
  })

  it('refuses a job over its queue limit as retryable', async () => {
    const gate = new SharedArrayBuffer(4)
    const jobs = open({ queueMax: 2 })
    await jobs.run({ does: 'answer' })
    const running = jobs.run({ does: 'wait', gate })
    const waiting = [jobs.run({ does: 'answer' }), jobs.run({ does: 'answer' })]
    const refused = jobs.run({ does: 'answer' })
    await expect(refused).rejects.toMatchObject({ kind: 'pool-full', retryable: true })
    Atomics.store(new Int32Array(gate), 0, 1)
    Atomics.notify(new Int32Array(gate), 0)
    await Promise.all([running, ...waiting])
  })

  it('rejects the queued jobs when it stops', async () => {
    const gate = new SharedArrayBuffer(4)
    const jobs = open()
    // Its thread has started: the stop waits for the job alone.
    await jobs.run({ does: 'answer' })
    const running = jobs.run({ does: 'wait', gate })
    const waiting = jobs.run({ does: 'answer' })
    const stopped = jobs.stop()
    await expect(waiting).rejects.toMatchObject({ kind: 'pool-stopped' })
    Atomics.store(new Int32Array(gate), 0, 1)
    Atomics.notify(new Int32Array(gate), 0)
    await running
    await stopped
  })
})
