// The open loop in simulated time: what it measures is exact, whatever the machine does.
import { describe, expect, test } from 'vitest'
import { limited, simulate, stalling } from '../../testkit/simulated-endpoint.ts'

const second = 1_000

describe('the open loop', () => {
  test('shows a stall of 1 s in every 10 at 1,000/s as p99 = 0.9 s, which a closed loop hides', async () => {
    const behaviour = { connections: 32, answer: stalling(10 * second, second) }
    const { tally } = await simulate({ rate: 1_000, durationMs: 60 * second }, behaviour)
    expect(tally.calls).toBe(60_000)
    expect(tally.latency.percentile(99)).toBeGreaterThan(900 * 0.95)
    expect(tally.latency.percentile(99)).toBeLessThan(900 * 1.05)
    // From the write to the answer, as a client measures that waits for each answer.
    expect(tally.service.percentile(99)).toBeLessThan(10)
    expect(tally.ownDelay.percentile(99)).toBeLessThan(1)
  })

  test('starts poisson arrivals at the asked rate, the same for the same seed', async () => {
    const behaviour = { connections: 1_000, answer: (atMs: number) => ({ atMs: atMs + 1 }) }
    const plan = { kind: 'poisson', rate: 2_000, durationMs: 5 * second } as const
    const first = await simulate({ ...plan, seed: 7 }, behaviour)
    const again = await simulate({ ...plan, seed: 7 }, behaviour)
    const other = await simulate({ ...plan, seed: 8 }, behaviour)
    // Four standard deviations of 10,000.
    expect(Math.abs(first.tally.calls - 10_000)).toBeLessThan(4 * Math.sqrt(10_000))
    expect(again.tally.calls).toBe(first.tally.calls)
    expect(other.tally.calls).not.toBe(first.tally.calls)
  })

  test('queues poisson arrivals at one server as queueing theory says', async () => {
    // M/D/1 at 80 %: the mean wait is rho / (2 (1 - rho)) service times, so 1 + 2 of them in all.
    const plan = { kind: 'poisson', rate: 800, durationMs: 100 * second } as const
    const { tally } = await simulate(plan, { connections: 10_000, answer: limited(1_000) })
    expect(tally.latency.meanMs()).toBeGreaterThan(3 * 0.9)
    expect(tally.latency.meanMs()).toBeLessThan(3 * 1.1)
  })

  test('lets calls take turns', async () => {
    const behaviour = { connections: 10, answer: (atMs: number) => ({ atMs: atMs + 1 }) }
    const { sent } = await simulate({ rate: 100, durationMs: 70, callCount: 3 }, behaviour)
    expect(sent).toEqual([0, 1, 2, 0, 1, 2, 0])
  })

  test('counts errors by their code and leaves them out of the latencies', async () => {
    let calls = 0
    const answer = (atMs: number) => {
      calls += 1
      return calls % 4 === 0 ? { atMs: atMs + 1, code: 'HTTP 429' } : { atMs: atMs + 5 }
    }
    const { tally } = await simulate(
      { rate: 1_000, durationMs: second },
      { connections: 50, answer },
    )
    expect([...tally.errors]).toEqual([['HTTP 429', 250]])
    expect(tally.succeeded).toBe(750)
    expect(tally.latency.count).toBe(750)
  })

  test('counts a call without an answer as a timeout with the time that it waited', async () => {
    const answer = () => ({ atMs: Number.POSITIVE_INFINITY })
    const plan = { rate: 10, durationMs: 300 }
    const { tally, problem } = await simulate(plan, { connections: 2, answer }, 2 * second)
    expect(problem).toBe(null)
    expect(tally.calls).toBe(3)
    expect(tally.errors.get('timeout')).toBe(3)
    expect(tally.latency.percentile(0)).toBeGreaterThanOrEqual(2 * second * 0.999)
  })

  test('keeps what it measured when the endpoint goes away half-way', async () => {
    const answer = (atMs: number) => ({ atMs: atMs < 500 ? atMs + 1 : Number.POSITIVE_INFINITY })
    const behaviour = { connections: 4, answer, goneAtMs: second }
    const { tally, problem } = await simulate({ rate: 100, durationMs: 2 * second }, behaviour)
    expect(problem).toBe('it is gone')
    expect(tally.succeeded).toBe(50)
    expect((tally.errors.get('timeout') ?? 0) + (tally.errors.get('not sent') ?? 0)).toBe(
      tally.calls - 50,
    )
  })
})
