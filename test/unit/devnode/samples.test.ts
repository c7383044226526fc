import { describe, expect, it } from 'vitest'
import { Samples } from '../../../src/devnode/ledger/samples.ts'

const key = (value: number) => new Uint8Array(32).fill(value)

describe('the samples of the ledger', () => {
  it('report the lowest fee that landed, overall and for all given accounts', () => {
    const samples = new Samples()
    samples.landed({ price: 500, writable: [key(1), key(2)] })
    samples.landed({ price: 20, writable: [key(1)] })
    samples.closed({ slot: 7, transactionCount: 2, blockTime: 1_000 })
    samples.closed({ slot: 8, transactionCount: 0, blockTime: 1_000 })
    const fees = (...addresses: Uint8Array[]) =>
      samples.prioritizationFees(addresses).map((fee) => [fee.slot, fee.prioritizationFee])
    expect(fees()).toEqual([
      [7, 20],
      [8, 0],
    ])
    expect(fees(key(1), key(2))[0]).toEqual([7, 500])
    expect(fees(key(9))[0]).toEqual([7, 20])
  })

  it('keep 150 blocks of fees and a sample a minute, newest first', () => {
    const samples = new Samples()
    for (let slot = 1; slot <= 400; slot++)
      samples.closed({ slot, transactionCount: 3, blockTime: 1_000 + slot })
    expect(samples.prioritizationFees([])).toHaveLength(150)
    const found = samples.performanceSamples(2)
    expect(found.map(({ slot }) => slot)).toEqual([361, 301])
    expect(found[0]).toMatchObject({ numSlots: 60, numTransactions: 180, samplePeriodSecs: 60 })
    expect(samples.performanceSamples(720)).toHaveLength(6)
  })
})
