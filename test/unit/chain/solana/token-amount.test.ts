import { describe, expect, it } from 'vitest'
import { uiTokenAmount } from '../../../../src/chain/solana/token-account.ts'

describe('uiTokenAmount', () => {
  it.each([
    [0n, 6, 0, '0'],
    [1n, 9, 1e-9, '0.000000001'],
    [1_500_000n, 6, 1.5, '1.5'],
    [7n, 0, 7, '7'],
    [2n ** 64n - 1n, 6, 18446744073709.551, '18446744073709.551615'],
  ])('writes %s of %s decimals', (amount, decimals, uiAmount, uiAmountString) => {
    expect(uiTokenAmount(amount, decimals)).toEqual({
      amount: String(amount),
      decimals,
      uiAmount,
      uiAmountString,
    })
  })
})
