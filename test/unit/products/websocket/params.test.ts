import { describe, expect, it } from 'vitest'
import { readers, readId } from '../../../../src/products/websocket/subscriptions/params.ts'
import { encodeBase58 } from '../../../../src/solana/base58.ts'

const key = encodeBase58(new Uint8Array(32).fill(7))
const signature = encodeBase58(new Uint8Array(64).fill(7))
const read = (topic: string, ...params: unknown[]) => readers[topic]!(params)
const invalid = (message: string) => ({ code: -32602, message })

describe('params of the subscribe methods', () => {
  it('stand for finalized and binary where nothing is said', () => {
    expect(read('account', key)).toMatchObject({
      lane: 2,
      view: { encoding: 'binary', dataSlice: null },
    })
    expect(read('program', key)).toMatchObject({ lane: 2, filters: [] })
    expect(read('block', 'all')).toMatchObject({
      lane: 2,
      mention: null,
      view: { encoding: 'base64', details: 'full', showRewards: false, versionMax: null },
    })
    expect(read('transaction', {})).toMatchObject({ lane: 2, view: { versionMax: 0 } })
    expect(read('slot')).toEqual({ kind: 'slot' })
    expect(readers.slot!(undefined)).toEqual({ kind: 'slot' })
  })

  it('are the same wish however the keys of a filter are ordered', () => {
    const other = encodeBase58(new Uint8Array(32).fill(8))
    expect(read('transaction', { accountInclude: [key, other, key] })).toEqual(
      read('transaction', { accounts: { include: [other, key] } }),
    )
  })

  it.each([
    ['account', ['x'], 'Invalid Request: Invalid pubkey provided'],
    ['program', [5], 'Invalid Request: Invalid pubkey provided'],
    ['signature', [key], 'Invalid Request: Invalid signature provided'],
    ['logs', [{ mentions: [] }], 'Invalid Request: Only 1 address supported'],
    ['logs', [{ mentions: [key, key] }], 'Invalid Request: Only 1 address supported'],
    ['logs', [{ mentions: ['x'] }], 'Invalid Request: Invalid mentions provided'],
    [
      'block',
      [{ mentionsAccountOrProgram: 'x' }],
      'Invalid Request: Invalid mentions_account_or_program provided',
    ],
    ['slot', [1], 'Invalid parameters: No parameters were expected'],
  ])('of %s %j are refused as a validator does', (topic, params, message) => {
    expect(readers[topic]!(params)).toEqual(invalid(message))
  })

  it.each([
    ['account', []],
    ['account', [key, {}, {}]],
    ['account', { pubkey: key }],
    ['account', [key, { commitment: 'recent' }]],
    ['account', [key, { encoding: 'hex' }]],
    ['account', [key, { dataSlice: { offset: -1, length: 1 } }]],
    ['account', [key, { dataSlice: 5 }]],
    ['account', [key, []]],
    ['program', [key, { filters: [{}] }]],
    ['logs', ['everything']],
    ['logs', [{}]],
    ['signature', [signature, { enableReceivedNotification: 1 }]],
    ['block', ['all', { transactionDetails: 'some' }]],
    ['block', ['all', { maxSupportedTransactionVersion: '0' }]],
    ['transaction', ['all']],
    ['transaction', [{ vote: 'yes' }]],
    ['transaction', [{ accountInclude: key }]],
    ['transaction', [{ accountInclude: Array.from({ length: 65 }, () => key) }]],
    ['transaction', [{ signature: key }]],
  ])('of %s %j are refused with -32602', (topic, params) => {
    expect(readers[topic]!(params)).toMatchObject({ code: -32602 })
  })

  it('of an unsubscribe are one id', () => {
    expect(readId([5])).toBe(5)
    for (const params of [[], [-1], ['5'], [1.5], [1, 2], undefined, { id: 1 }])
      expect(readId(params)).toBeNull()
  })
})
