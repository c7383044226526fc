// What a call may be used for, how its slot is read, how slow is slow.
import { describe, expect, it } from 'vitest'
import { encodedText } from '../../../../src/base/jsonrpc/build.ts'
import type { Call } from '../../../../src/base/jsonrpc/parse.ts'
import { bodyOf } from '../../../../src/upstream/call-body.ts'
import { isLasting, policyOf, readOptions } from '../../../../src/upstream/proxy/method-policy.ts'
import { SlowEstimate } from '../../../../src/upstream/proxy/rpc-proxy.ts'
import { CustomerSlots, slotIn } from '../../../../src/upstream/proxy/shown-slots.ts'

function call(method: string, ...params: unknown[]): Call {
  return { method, params, paramsText: JSON.stringify(params), id: '1' }
}

describe('the policy of a method', () => {
  it('lets nothing be repeated that changes something', () => {
    for (const method of ['sendTransaction', 'requestAirdrop'])
      expect(policyOf(method).kind).toBe('send')
    for (const method of ['simulateTransaction', 'getBalance', 'unheardOf'])
      expect(policyOf(method).kind).toBe('read')
  })

  it('reads commitment and minContextSlot, finalized by default', () => {
    expect(readOptions(call('getBalance', 'a'))).toEqual({ commitment: 2 })
    expect(readOptions({ ...call('getSlot'), params: undefined })).toEqual({ commitment: 2 })
    const said = { commitment: 'processed', minContextSlot: 7 }
    expect(readOptions(call('getBalance', 'a', said))).toEqual({ commitment: 0, minContextSlot: 7 })
    expect(readOptions(call('getBalance', 'a', { commitment: 'confirmed' })).commitment).toBe(1)
    for (const unknown of ['odd', 'single', 'recent'])
      expect(readOptions(call('getBalance', 'a', { commitment: unknown })).commitment).toBe(2)
    const odd = { minContextSlot: '7' }
    expect(readOptions(call('getBalance', 'a', odd)).minContextSlot).toBe(undefined)
  })

  it('keeps only what can never change', () => {
    const lasts = (asked: Call, finalized: number | null = 100) =>
      isLasting(policyOf(asked.method), asked, readOptions(asked), finalized)
    expect(lasts(call('getGenesisHash'))).toBe(true)
    expect(lasts(call('getBlock', 5))).toBe(true)
    expect(lasts(call('getBlock', 5, { commitment: 'confirmed' }))).toBe(false)
    expect(lasts(call('getTransaction', 's', 'json'))).toBe(true)
    expect(lasts(call('getTransaction', 's', { commitment: 'processed' }))).toBe(false)
    expect(lasts(call('getBlockTime', 100))).toBe(true)
    expect(lasts(call('getBlockTime', 101))).toBe(false)
    expect(lasts(call('getBlockTime', 1), null)).toBe(false)
    for (const method of ['getAccountInfo', 'getSlot', 'getLatestBlockhash', 'getVersion'])
      expect(lasts(call(method, 'a', { commitment: 'finalized' }))).toBe(false)
  })
})

describe('the body of a call', () => {
  it('has the params as written and a name that cannot break out', () => {
    const asked = { ...call('getBalance'), paramsText: '[ 1.0 ]' }
    expect(bodyOf(asked)).toBe('{"jsonrpc":"2.0","id":1,"method":"getBalance","params":[ 1.0 ]}')
    const odd = bodyOf({ ...call('a","id":2,"x":"'), paramsText: '' })
    expect(JSON.parse(odd)).toEqual({ jsonrpc: '2.0', id: 1, method: 'a","id":2,"x":"' })
  })
})

describe('SlotTracker', () => {
  it('only rise, each customer and commitment for itself', () => {
    const marks = new CustomerSlots()
    marks.raise('a', 0, 5)
    marks.raise('a', 0, 3)
    marks.raise('a', 2, 1)
    const seen = [marks.get('a', 0), marks.get('a', 1), marks.get('a', 2), marks.get('b', 0)]
    expect(seen).toEqual([5, 0, 1, 0])
  })

  it('find the slot in an answer', () => {
    const told = (method: string, text: string) => slotIn(method, encodedText(text))
    expect(told('getSlot', '123')).toBe(123)
    expect(told('getSlot', '{"slot":1}')).toBe(null)
    const context = '{"context":{"apiVersion":"4.0","slot":77},"value":{"slot":1}}'
    expect(told('getLatestBlockhash', context)).toBe(77)
    expect(told('getLatestBlockhash', '{"value":{"slot":1}}')).toBe(null)
    expect(told('getEpochInfo', '{"absoluteSlot":166598,"blockHeight":1}')).toBe(166598)
    expect(told('getBlockHeight', '99')).toBe(null)
  })
})

describe('SlowEstimate', () => {
  it('converges near the 95th percentile and follows it', () => {
    const estimate = new SlowEstimate(1)
    let seed = 1
    const random = () => {
      seed = (seed * 48_271) % 2_147_483_647
      return seed / 2_147_483_647
    }
    for (let count = 0; count < 5_000; count++) estimate.observe(random() * 100)
    expect(estimate.ms).toBeGreaterThan(80)
    expect(estimate.ms).toBeLessThan(100)
    for (let count = 0; count < 5_000; count++) estimate.observe(random() * 10)
    expect(estimate.ms).toBeLessThan(12)
  })
})
