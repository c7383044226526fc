import fc from 'fast-check'
import { expect, it } from 'vitest'
import { baseHead, rateHead } from '../../../../src/products/rpc/handle.ts'

const few = (max: number) => fc.integer({ min: 0, max })
const verdicts = fc.record({
  limit: few(1_000_000_000),
  windowSecs: few(3),
  remaining: few(1_000),
  resetSecs: few(100),
})

it('states the numbers of its own verdict, whichever heads were built before', () => {
  const check = (given: { limit: number } & Record<string, number>, origin: string) => {
    const base = baseHead({ origin })
    const verdict = { ok: true, reason: 'ok', retryAfterMs: 0, ...given } as never
    const { limit, windowSecs, remaining, resetSecs } = given
    const { name, value } = rateHead(base, verdict)
    expect(`${name}: ${value}`).toBe(
      `${base.name}: ${base.value}\r\nratelimit-policy: "credits";q=${limit};w=${windowSecs}` +
        `\r\nratelimit: "credits";r=${remaining};t=${resetSecs}`,
    )
  }
  const origins = fc.constantFrom('', 'https://example.com')
  fc.assert(
    fc.property(verdicts, origins, (given, origin) => {
      check(given, origin)
      // All of these share an entry of the cache with the first.
      check({ ...given, remaining: given.remaining + 256 }, origin)
      check({ ...given, windowSecs: given.windowSecs + 1 }, origin)
      check({ ...given, limit: given.limit + 256 }, origin)
      check({ ...given, resetSecs: given.resetSecs + 256 }, origin)
      check(given, origin === '' ? 'https://example.com' : '')
    }),
  )
})
