import { describe, expect, test } from 'vitest'
import { accept, type Outcome, refuse } from '../../../src/base/errors.ts'
import { findKnee, type Step } from '../../../src/loadtest/load-result.ts'
import { limited, simulate } from '../../testkit/simulated-endpoint.ts'

type Judge = (rate: number, attempt: number) => Partial<Step<null>>

async function search(start: number, judge: Judge) {
  const attempts = new Map<number, number>()
  const found = await findKnee<null>(start, async (rate): Promise<Outcome<Step<null>>> => {
    const attempt = (attempts.get(rate) ?? 0) + 1
    attempts.set(rate, attempt)
    return accept({ rate, isMet: false, problem: null, run: null, ...judge(rate, attempt) })
  })
  if (!found.ok) throw new Error(found.refusal.message)
  return found.value
}

describe('the search for the knee', () => {
  test.each([
    [100, 730],
    [1_000, 730],
    [4, 31_000],
    [5_000, 40],
  ])('that begins at %d/s lands within 10 %% of a limit of %d/s', async (start, limit) => {
    const { best, problem } = await search(start, (rate) => ({ isMet: rate <= limit }))
    expect(problem).toBe(null)
    expect(best?.rate).toBeGreaterThan(limit * 0.9)
    expect(best?.rate).toBeLessThanOrEqual(limit)
  })

  test('lands within 10 % of an endpoint that works off 700 calls per second', async () => {
    const found = await findKnee<null>(50, async (rate) => {
      const behaviour = { connections: 10_000, answer: limited(700) }
      const { tally } = await simulate({ rate, durationMs: 2_000 }, behaviour)
      const isMet = (tally.latency.percentile(99) ?? 0) < 40
      return accept({ rate, isMet, problem: null, run: null })
    })
    const rate = found.ok ? (found.value.best?.rate ?? 0) : 0
    expect(Math.abs(rate / 700 - 1)).toBeLessThan(0.1)
  })

  test('is not misled by one bad run', async () => {
    const judge: Judge = (rate, attempt) => ({
      isMet: rate <= 800 && (rate !== 200 || attempt > 1),
    })
    expect((await search(100, judge)).best?.rate).toBeGreaterThan(720)
  })

  test('ends with a sentence where the machine cannot generate the next rate', async () => {
    const judge: Judge = (rate) => (rate > 1_000 ? { problem: 'too busy' } : { isMet: true })
    const { best, problem } = await search(250, judge)
    expect(problem).toBe('too busy')
    expect(best?.rate).toBe(1_000)
  })

  test('ends with a sentence when no rate meets the conditions', async () => {
    const { best, problem } = await search(16, () => ({ isMet: false }))
    expect(best).toBe(null)
    expect(problem).toBe('no rate down to 1/s meets the conditions')
  })

  test('ends when the endpoint refuses a run', async () => {
    const found = await findKnee<null>(10, async () => refuse('unavailable', 'gone', 'gone'))
    expect(found.ok).toBe(false)
  })
})
