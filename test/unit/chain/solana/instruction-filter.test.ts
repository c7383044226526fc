import { describe, expect, it } from 'vitest'
import { keyOf } from '../../../../src/chain/solana/base58.ts'
import type { TransactionContent } from '../../../../src/chain/solana/geyser-decode.ts'
import { programsOf, runsAny } from '../../../../src/chain/solana/instruction-filter.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

const chain = new SyntheticSolana()
const keys = chain.keys.slice(0, 3)
const instruction = (programIdIndex: number, ...data: number[]) => ({
  programIdIndex,
  accounts: new Uint8Array(),
  data: Uint8Array.from(data),
})
const base = chain.transaction(0)
/** Key 0 is run with 1 2 3, and runs key 1 with 9; key 2 is only mentioned. */
const content: TransactionContent = {
  ...base,
  message: { ...base.message, instructions: [instruction(0, 1, 2, 3), instruction(7, 5)] },
  meta: {
    ...base.meta,
    innerInstructions: [{ index: 0, instructions: [{ ...instruction(1, 9), stackHeight: 2 }] }],
  },
}

function runs(...asked: [key: number, ...prefix: number[]][]): boolean {
  const filters = asked.map(([key, ...prefix]) => ({
    program: keyOf(keys[key]!),
    dataPrefix: keyOf(Uint8Array.from(prefix)),
  }))
  return runsAny(filters, keys, content)
}

describe('instructions', () => {
  it('are selected by program and by how their data begins', () => {
    expect(runs([0])).toBe(true)
    expect(runs([0, 1, 2])).toBe(true)
    expect(runs([0, 1, 2, 3])).toBe(true)
    expect(runs([0, 2])).toBe(false)
    expect(runs([0, 1, 2, 3, 4])).toBe(false)
    expect(runs([0, 9])).toBe(false)
  })

  it('count inside others, and any one of a list will do', () => {
    expect(runs([1, 9])).toBe(true)
    expect(runs([1, 1])).toBe(false)
    expect(runs([0, 7], [1, 9])).toBe(true)
    expect(runs()).toBe(false)
  })

  it('are those that ran: a program that is only mentioned is none', () => {
    expect(runs([2])).toBe(false)
    const none = { ...content, meta: { ...content.meta, innerInstructions: null } }
    expect(runsAny([{ program: keyOf(keys[1]!), dataPrefix: '' }], keys, none)).toBe(false)
  })

  it('name each program once for an index', () => {
    const program = keyOf(keys[0]!)
    const twice = ['', 'x'].map((dataPrefix) => ({ program, dataPrefix }))
    expect([...programsOf(twice)]).toEqual([program])
  })
})
