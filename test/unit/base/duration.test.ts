import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { formatDuration, parseDuration } from '../../../src/base/clock.ts'

describe('durations', () => {
  it.each([
    ['500ms', 500],
    ['90s', 90_000],
    ['30m', 1_800_000],
    ['1h', 3_600_000],
    ['1h30m', 5_400_000],
    ['7d', 604_800_000],
    ['0s', 0],
  ])('reads %s', (text, durationMs) => {
    expect(parseDuration(text)).toBe(durationMs)
  })

  it.each(['', '1', 'h', '1 h', '-1h', '1.5h', '1w', '1h-', '999999999999d'])(
    'refuses %j',
    (text) => {
      expect(parseDuration(text)).toBeNull()
    },
  )

  it('reads what it writes', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 10 ** 12 }), (durationMs) => {
        expect(parseDuration(formatDuration(durationMs))).toBe(durationMs)
      }),
    )
  })

  it('never throws', () => {
    fc.assert(fc.property(fc.string(), (text) => void parseDuration(text)))
  })
})
