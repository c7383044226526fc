import { describe, expect, it } from 'vitest'
import {
  decodeTransactionError,
  encodeTransactionError,
  type TransactionError,
} from '../../../../src/chain/solana/transaction-error.ts'

const samples: readonly TransactionError[] = [
  'AccountInUse',
  'BlockhashNotFound',
  'AlreadyProcessed',
  'CommitCancelled',
  { InstructionError: [0, 'GenericError'] },
  { InstructionError: [3, { Custom: 6001 }] },
  { InstructionError: [255, 'BuiltinProgramsMustConsumeComputeUnits'] },
  { DuplicateInstruction: 2 },
  { InsufficientFundsForRent: { account_index: 4 } },
  { ProgramExecutionTemporarilyRestricted: { account_index: 1 } },
]

describe('a TransactionError', () => {
  it('goes to bincode and back', () => {
    for (const error of samples)
      expect(decodeTransactionError(encodeTransactionError(error))).toEqual(error)
  })

  it('has the numbers of the runtime', () => {
    const hex = (error: TransactionError) =>
      Buffer.from(encodeTransactionError(error)).toString('hex')
    expect(hex('BlockhashNotFound')).toBe('07000000')
    expect(hex({ InstructionError: [1, { Custom: 1 }] })).toBe('08000000011900000001000000')
    expect(hex({ InsufficientFundsForRent: { account_index: 2 } })).toBe('1f00000002')
  })

  it('is null for other bytes', () => {
    expect(decodeTransactionError(new Uint8Array(0))).toBeNull()
    expect(decodeTransactionError(Uint8Array.of(255, 0, 0, 0))).toBeNull()
    for (const error of samples) {
      const bytes = encodeTransactionError(error)
      for (let length = 0; length < bytes.length; length++)
        expect(decodeTransactionError(bytes.subarray(0, length))).toBeNull()
    }
  })
})
