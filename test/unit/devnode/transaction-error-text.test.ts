import { describe, expect, it } from 'vitest'
import { transactionErrorText } from '../../../src/devnode/transaction-error-text.ts'

describe('transactionErrorText', () => {
  it('matches the sentences of a validator', () => {
    expect(transactionErrorText('BlockhashNotFound')).toBe('Blockhash not found')
    expect(transactionErrorText({ InstructionError: [2, { Custom: 6001 }] })).toBe(
      'Error processing Instruction 2: custom program error: 0x1771',
    )
    expect(transactionErrorText({ InstructionError: [0, 'InvalidAccountData'] })).toBe(
      'Error processing Instruction 0: invalid account data for instruction',
    )
    expect(transactionErrorText({ InsufficientFundsForRent: { account_index: 1 } })).toBe(
      'Transaction results in an account (1) with insufficient funds for rent',
    )
    expect(transactionErrorText({ DuplicateInstruction: 3 })).toContain('(3)')
  })

  it('returns the bare name of an unknown error', () => {
    expect(transactionErrorText('SomethingNew')).toBe('SomethingNew')
  })
})
