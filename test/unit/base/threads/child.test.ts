// A supervised child process: calls over its pipe, limits, death during a call, restart, stop.
import { afterEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../../../src/base/clock.ts'
import type { Fault } from '../../../../src/base/errors.ts'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { type ChildOptions, SupervisedChild } from '../../../../src/base/threads/supervisor.ts'

const entry = new URL('../../../testkit/workers/child.mjs', import.meta.url)
const backoff = { firstMs: 1, lastMs: 20, deathsMax: 5, healthyMs: 60_000 }
const deadline = { timeout: 20_000 }
let running: SupervisedChild | null = null

async function start(options: Partial<ChildOptions> = {}) {
  const faults: Fault[] = []
  running = await SupervisedChild.start(
    { name: 'test', entry, backoff, ...options },
    { clock: systemClock, log: silentLog, onDown: (fault) => faults.push(fault) },
  )
  return { child: running, faults }
}

afterEach(async () => {
  await running?.stop()
  running = null
})

describe('child process', () => {
  it('answers calls, small and large, many at once', async () => {
    const { child } = await start({ words: ['a', 'b'] })
    expect(await child.call('words', null)).toEqual(['a', 'b'])
    const large = Buffer.alloc(3_000_000, 7)
    const echoed = await child.call<Uint8Array>('echo', large)
    expect(Buffer.compare(large, echoed)).toBe(0)
    const inputs = Array.from({ length: 1000 }, (_, index) => ({ index, text: 'x'.repeat(index) }))
    expect(await Promise.all(inputs.map((input) => child.call('echo', input)))).toEqual(inputs)
  })

  it('returns an error of the child as a fault and keeps running', async () => {
    const { child } = await start()
    const failed = child.call('fail', null)
    await expect(failed).rejects.toMatchObject({
      kind: 'call-failed',
      message: 'refused by the child',
    })
    await expect(child.call('nonsense', null)).rejects.toMatchObject({ kind: 'call-failed' })
    expect(await child.call('echo', 1)).toBe(1)
  })

  it('limits the calls in flight and applies a timeout to each', async () => {
    const { child } = await start({ callsMax: 2 })
    const first = child.call('never', null, 30)
    const second = child.call('never', null, 30)
    const third = child.call('echo', null)
    await expect(third).rejects.toMatchObject({ kind: 'child-busy', retryable: true })
    await expect(first).rejects.toMatchObject({ kind: 'child-slow', retryable: true })
    await expect(second).rejects.toMatchObject({ kind: 'child-slow' })
    expect(await child.call('echo', 2)).toBe(2)
  })

  it('is restarted when it is killed, and rejects the calls in flight', async () => {
    let starts = 0
    const { child, faults } = await start({ onStart: () => (starts += 1) })
    const before = child.pid
    const waiting = child.call('never', null)
    const killing = child.call('die', null)
    await expect(waiting).rejects.toMatchObject({ kind: 'child-gone', retryable: true })
    await expect(killing).rejects.toMatchObject({ kind: 'child-gone' })
    // None runs before the back-off has passed: it was not sent.
    await expect(child.call('echo', 1)).rejects.toMatchObject({ kind: 'child-down' })
    await expect(child.steer('echo', 1)).rejects.toMatchObject({ kind: 'child-gone' })
    await expect.poll(() => child.isRunning, deadline).toBe(true)
    expect(await child.call('pid', null)).toBe(child.pid)
    expect(child.pid).not.toBe(before)
    child.kill()
    await expect.poll(() => child.restarts, deadline).toBe(2)
    await expect.poll(() => child.isRunning, deadline).toBe(true)
    expect(starts).toBe(3)
    expect(faults).toEqual([])
  })

  it('delivers events that are not responses to a call', async () => {
    const events: [string, unknown][] = []
    const { child } = await start({ onEvent: (event, data) => events.push([event, data]) })
    await child.call('push', { n: 1 })
    await expect.poll(() => events, deadline).toEqual([['event', { n: 1 }]])
  })

  it('reports a child that does not start', async () => {
    await expect(start({ words: ['no-start'] })).rejects.toMatchObject({
      kind: 'child-start',
      message: 'child process test exited with code 9',
    })
  })

  it('stops on a frame, and is killed when it does not', async () => {
    const { child } = await start()
    const { pid } = child
    await child.stop()
    expect(() => process.kill(pid, 0)).toThrow()
    const stubborn = await start({ words: ['stubborn'], stopMsMax: 50 })
    await stubborn.child.stop()
    expect(stubborn.child.isRunning).toBe(false)
    expect(stubborn.child.restarts).toBe(0)
  })
})
