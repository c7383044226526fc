import { describe, expect, test } from 'vitest'
import { encodedText } from '../../../../src/base/jsonrpc/build.ts'
import { eachShown } from '../../../../src/upstream/proxy/shown-slots.ts'

function shownBy(method: string, result: unknown): number[] {
  const slots: number[] = []
  const call = { method, params: [], paramsText: '[]' }
  // Reason for the cast: nothing else of a call is read.
  eachShown(call as never, 1, encodedText(JSON.stringify(result)), (slot) => slots.push(slot))
  return slots
}

describe('getTransaction', () => {
  const forged = 999_999_999_999_999
  const vote = {
    parsed: { type: 'updatevotestate', info: { lockouts: [{ slot: forged }], slot: forged } },
  }

  test('shows the slot of its answer, not one that the sender of the transaction wrote', () => {
    const transaction = { message: { instructions: [vote] } }
    expect(shownBy('getTransaction', { blockTime: 1, slot: 77, transaction })).toEqual([77])
    expect(shownBy('getTransaction', { blockTime: 1, transaction, slot: 77 })).toEqual([77])
    expect(shownBy('getTransaction', { transaction: [vote], version: 0 })).toEqual([])
    expect(shownBy('getTransaction', null)).toEqual([])
  })

  test('is not misled by text in a memo', () => {
    const memo = [`{"slot":${forged}`, `}}]]\\"slot":${forged}`, '"slot":', '\\']
    expect(shownBy('getTransaction', { transaction: memo, slot: 77 })).toEqual([77])
    expect(shownBy('getTransaction', { meta: { logMessages: memo } })).toEqual([])
  })
})
