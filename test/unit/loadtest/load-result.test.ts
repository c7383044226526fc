import { describe, expect, test } from 'vitest'
import type { LoadRun } from '../../../src/loadtest/load.ts'
import { sampleFields } from '../../../src/loadtest/load-generator.ts'
import {
  errorsTable,
  loadPlots,
  loadResult,
  loadSentences,
} from '../../../src/loadtest/load-result.ts'
import { LoadTally } from '../../../src/loadtest/load-tally.ts'
import { figureIn } from '../../../src/loadtest/result.ts'
import { ClockWatch } from '../../../src/loadtest/thread-clock.ts'

const startedMs = 1_000

/** A run of 10 s at 100/s whose calls were noticed `lateMs` late and answered after 2 ms. */
function runOf(changed: Partial<LoadRun>, lateMs = 0, codes: readonly string[] = ['']): LoadRun {
  const tally = new LoadTally(startedMs)
  const samples = new Float64Array(1_000 * sampleFields)
  for (let call = 0; call < 1_000; call += 1) {
    const intendedMs = startedMs + call * 10
    const noticedMs = intendedMs + lateMs
    samples.set(
      [intendedMs, noticedMs, noticedMs, noticedMs + 2, call % codes.length],
      call * sampleFields,
    )
  }
  tally.add(samples, codes)
  const plan = { kind: 'constant', rate: 100, seed: 1, durationMs: 10_000, callCount: 1 } as const
  const url = new URL('http://h:1/path?api-key=secret')
  const target = { kind: 'rpc', url, token: 'secret', label: 'rpc h:1' } as const
  const settings = { target, calls: ['{}'], plan, warmUpMs: 0, connections: 1, threads: 1 }
  return {
    settings: { ...settings, timeoutMs: 1_000 },
    tally,
    startedAt: '2026-01-01T00:00:00.000Z',
    startedMs,
    seconds: 10,
    reconnects: 0,
    notifications: 0,
    policy: null,
    lagP99Ms: null,
    busyWorst: 0.2,
    busyMs: 1_000,
    answered: 1_000,
    partial: null,
    clockStep: null,
    ...changed,
  }
}

describe('the result of a load', () => {
  test('has latencies with intervals, rates and shares', () => {
    const result = loadResult(runOf({}, 0, ['', '', '', 'HTTP 429']))
    expect(result.fit).toBe(true)
    expect(figureIn(result, 'p99')).toMatchObject({ unit: 'ms', better: 'lower' })
    expect(figureIn(result, 'p99')?.value).toBeCloseTo(2, 2)
    expect(figureIn(result, 'p99')?.low).toBeCloseTo(2, 2)
    expect(figureIn(result, 'achieved')?.value).toBeCloseTo(75, 0)
    expect(figureIn(result, 'errors')?.value).toBe(0.25)
    expect(result.detail.errors).toEqual({ 'HTTP 429': 250 })
    expect(JSON.stringify(result)).not.toContain('secret')
    expect(loadPlots(runOf({}).tally).length).toBe(3)
  })

  test('is a sentence, with what to do about calls over the plan', () => {
    const policy = '"credits";q=200;w=2'
    const refused = runOf({ policy }, 0, ['', 'HTTP 429', 'HTTP 429', 'closed'])
    expect(loadSentences(refused)).toEqual([
      'rpc h:1 answered 25/s of 100 asked; 75 % of the calls failed, most of them HTTP 429; 99 % ' +
        'were answered within 2 ms of their intended start.',
      'HTTP 429 means: the plan allows 100 credits per second. For a load test of an endpoint of ' +
        'your own: sluice subscription set demo --plan unlimited',
    ])
    expect(errorsTable(refused.tally)).toMatchObject([
      {
        title: 'Errors by code',
        rows: [
          ['HTTP 429', '500', '50 %'],
          ['closed', '250', '25 %'],
        ],
      },
    ])
    const foreign = loadSentences(runOf({}, 0, ['', 'rpc -32429']))[1]
    expect(foreign).toContain('a limit of the subscription or the address')
    expect(loadSentences(runOf({}))).toHaveLength(1)
    expect(errorsTable(runOf({}).tally)).toEqual([])
  })

  test('is unfit when calls started late', () => {
    const { fit, unfit } = loadResult(runOf({}, 3))
    expect([fit, unfit]).toEqual([
      false,
      ['this machine is too busy to keep the schedule: a start is 3 ms late at p99'],
    ])
  })

  test('is unfit when a generator thread had no time left, with its own limit', () => {
    const { unfit } = loadResult(runOf({ busyWorst: 0.99, busyMs: 10_000 }))
    expect(unfit).toEqual([
      'this machine cannot generate 100 calls per second: a generator thread worked 99 % of a ' +
        'second, its limit is about 100/s (--threads adds threads)',
    ])
  })

  test('is unfit when the machine generated less than was asked', () => {
    const { unfit } = loadResult(runOf({}, 5_000))
    expect(unfit[0]).toMatch(/cannot generate 100 calls per second, it generated 66\.\d$/)
  })

  test('is unfit when the wall clock stepped, or nothing succeeded', () => {
    const step = 'the wall clock stepped'
    expect(loadResult(runOf({ clockStep: step })).unfit).toEqual([step])
    expect(loadResult(runOf({}, 0, ['closed'])).unfit).toEqual(['no call succeeded'])
    const empty = runOf({ tally: new LoadTally(startedMs) })
    expect(loadResult(empty).unfit).toEqual(['no call was measured (0 samples)'])
  })
})

describe('the watch of the wall clock', () => {
  test('notices a step in either direction and no slow drift', () => {
    let offsetMs = 0
    const wall = () => Date.now() + offsetMs
    const quiet = new ClockWatch(wall)
    offsetMs += 20
    expect(quiet.end()).toBe(null)
    for (const stepMs of [3_000, -3_000]) {
      const watch = new ClockWatch(wall)
      offsetMs += stepMs
      expect(watch.end()).toMatch(/stepped by 3\.0 s/)
    }
  })
})
