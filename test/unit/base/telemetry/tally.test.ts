import { describe, expect, it } from 'vitest'
import { LatencyTally, PairTally } from '../../../../src/base/telemetry/meters.ts'

describe('LatencyTally', () => {
  it('puts each duration into the first bucket that fits, the longest into +Inf', () => {
    const tally = new LatencyTally()
    tally.observeMs(0)
    tally.observeMs(tally.buckets[0]! * 1000)
    tally.observeMs(60_000)
    const { counts, sum } = tally.read()
    expect([counts[0], counts.at(-1), counts.length]).toEqual([2, 1, tally.buckets.length + 1])
    expect(sum).toBeCloseTo(60.00005)
  })
})

describe('PairTally', () => {
  it('counts pairs, and names outside the set under the last one', () => {
    const tally = new PairTally(['a', 'b', 'other'], ['ok', 'error'])
    tally.count('a', 'ok')
    tally.count('a', 'ok')
    tally.count('nobody', 'error')
    expect([...tally.read()]).toEqual([
      ['a', 'ok', 2],
      ['a', 'error', 0],
      ['b', 'ok', 0],
      ['b', 'error', 0],
      ['other', 'ok', 0],
      ['other', 'error', 1],
    ])
  })
})
