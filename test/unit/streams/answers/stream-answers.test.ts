import { describe, expect, it } from 'vitest'
import { slotStatus } from '../../../../src/chain/solana/updates.ts'
import { StreamAnswers } from '../../../../src/streams/answers/stream-answers.ts'
import { hashOf, StreamChain, streamDeps } from '../../../testkit/stream-chain.ts'

function stage() {
  const chain = new StreamChain()
  let isLive = true
  let version = '4.0.0'
  const apiVersion = () => version
  const deps = { ...streamDeps, isLive: () => isLive, apiVersion }
  const answers = new StreamAnswers(chain.hub, deps)
  const ask = (method: string, ...params: unknown[]) => {
    const call = { method, params, paramsText: JSON.stringify(params), id: '1' }
    const found = answers.answer(call)
    return found?.answer.kind === 'text' ? found.answer.text : null
  }
  return {
    chain,
    answers,
    ask,
    setLive(value: boolean) {
      isLive = value
    },
    setVersion(value: string) {
      version = value
    },
  }
}

const at = (commitment: string) => ({ commitment })

describe('slots from the stream', () => {
  it('answers at every commitment, finalized by default', () => {
    const { chain, ask } = stage()
    expect(ask('getSlot')).toBeNull()
    chain.grow(10, 15)
    chain.block(16)
    expect(ask('getSlot', at('processed'))).toBe('16')
    expect(ask('getSlot', at('confirmed'))).toBe('15')
    expect(ask('getSlot', at('finalized'))).toBe('12')
    expect(ask('getSlot')).toBe('12')
    expect(ask('getBlockHeight', at('confirmed'))).toBe('15')
    chain.grow(17, 17)
    expect(ask('getSlot', at('confirmed'))).toBe('17')
  })

  it('answers blockhashes in the context of their commitment', () => {
    const { chain, ask } = stage()
    chain.grow(10, 15)
    const latest = JSON.parse(ask('getLatestBlockhash', at('confirmed'))!)
    expect(latest).toEqual({
      context: { apiVersion: '4.0.0', slot: 15 },
      value: { blockhash: hashOf(15), lastValidBlockHeight: 165 },
    })
    const isValid = (slot: number, commitment: string) => {
      const text = ask('isBlockhashValid', hashOf(slot), at(commitment))
      return text === null ? null : JSON.parse(text).value
    }
    expect(isValid(15, 'confirmed')).toBe(true)
    expect(isValid(15, 'finalized')).toBe(false)
    expect(isValid(9, 'confirmed')).toBeNull()
    chain.grow(16, 161)
    expect(isValid(11, 'confirmed')).toBe(true)
    expect(isValid(10, 'confirmed')).toBe(false)
  })

  it('leaves to a node what it does not know exactly', () => {
    const { chain, ask, setLive, setVersion } = stage()
    chain.grow(10, 15)
    expect(ask('getSlot', { commitment: 'confirmed', minContextSlot: 15 })).toBe('15')
    expect(ask('getSlot', { commitment: 'confirmed', minContextSlot: 16 })).toBeNull()
    expect(ask('getSlot', at('recent'))).toBeNull()
    expect(ask('getSlot', 'confirmed')).toBeNull()
    expect(ask('getSlot', at('confirmed'), 1)).toBeNull()
    expect(ask('getEpochInfo')).toBeNull()
    setLive(false)
    expect(ask('getSlot', at('confirmed'))).toBeNull()
    setLive(true)
    const fresh = stage()
    fresh.chain.grow(10, 15, { height: null })
    expect(fresh.ask('getSlot', at('confirmed'))).toBeNull()
    expect(ask('getLatestBlockhash', at('confirmed'))).toContain('4.0.0')
    setVersion('')
    expect(ask('getLatestBlockhash', at('confirmed'))).toBeNull()
    setVersion('4.0.1')
    expect(ask('getLatestBlockhash', at('confirmed'))).toContain('4.0.1')
  })

  it('does not guess which fork a node is on', () => {
    const { chain, ask } = stage()
    chain.grow(10, 15)
    chain.block(16)
    expect(ask('getSlot', at('processed'))).toBe('16')
    chain.block(17, { parent: 15 })
    expect(ask('getSlot', at('processed'))).toBeNull()
    expect(ask('isBlockhashValid', hashOf(16), at('processed'))).toBeNull()
    chain.block(18, { parent: 17 })
    expect(ask('getSlot', at('processed'))).toBeNull()
    chain.reach(17, slotStatus.confirmed)
    expect(ask('getSlot', at('processed'))).toBe('18')
    // The block that lost is no longer a known one.
    expect(ask('isBlockhashValid', hashOf(16), at('processed'))).toBeNull()
    expect(ask('isBlockhashValid', hashOf(18), at('processed'))).toContain('"value":true')
  })
})
