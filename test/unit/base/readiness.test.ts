import { afterEach, beforeEach, describe, expect, it, test, vi } from 'vitest'
import { Readiness } from '../../../src/base/readiness.ts'

test('a gateway is ready between its start and its stop, while every check is ok', () => {
  const readiness = new Readiness()
  const started = { name: 'components', ok: true }
  const notStarted = { ready: false, checks: [{ name: 'components', ok: false }] }
  expect(readiness.report()).toEqual(notStarted)
  const events = { name: 'events', ok: true, age_ms: 5 }
  readiness.begin([() => events])
  expect(readiness.report()).toEqual({ ready: true, checks: [started, events] })
  events.ok = false
  expect(readiness.report()).toEqual({ ready: false, checks: [started, events] })
  events.ok = true
  readiness.end()
  expect(readiness.report()).toEqual(notStarted)
})

describe('waiting for a started service', () => {
  beforeEach(() => {
    vi.useFakeTimers()
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  function stage() {
    const readiness = new Readiness()
    const check = { name: 'nodes', ok: false }
    readiness.begin([() => ({ ...check })])
    return { readiness, check }
  }

  it('waits until every check passes', async () => {
    const { readiness, check } = stage()
    let isReady: boolean | null = null
    void readiness.whenReady(30_000).then((ready) => {
      isReady = ready
    })
    await vi.advanceTimersByTimeAsync(10_000)
    expect(isReady).toBeNull()
    check.ok = true
    await vi.advanceTimersByTimeAsync(50)
    expect(isReady).toBe(true)
  })

  it('gives up at its bound, and when the service stops', async () => {
    const { readiness } = stage()
    const late = readiness.whenReady(1_000)
    await vi.advanceTimersByTimeAsync(1_000)
    expect(await late).toBe(false)
    const stopped = readiness.whenReady(1_000)
    readiness.end()
    await vi.advanceTimersByTimeAsync(50)
    expect(await stopped).toBe(false)
  })
})
