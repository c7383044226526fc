import { describe, expect, it } from 'vitest'
import { Samples } from '../../../src/devnode/ledger/state.ts'

describe('the samples of the ledger', () => {
  it('have one a minute, newest first', () => {
    const samples = new Samples()
    for (let slot = 1; slot <= 400; slot++)
      samples.closed({ slot, transactionCount: 3, blockTime: 1_000 + slot })
    const found = samples.performanceSamples(2)
    expect(found.map(({ slot }) => slot)).toEqual([361, 301])
    expect(found[0]).toMatchObject({ numSlots: 60, numTransactions: 180, samplePeriodSecs: 60 })
    expect(samples.performanceSamples(720)).toHaveLength(6)
  })
})
