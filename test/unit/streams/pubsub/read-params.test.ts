import { describe, expect, it } from 'vitest'
import { encodeBase58 } from '../../../../src/chain/solana/base58.ts'
import {
  paramsText,
  readId,
  readParams,
  type Topic,
} from '../../../../src/streams/pubsub/read-params.ts'

const key = encodeBase58(new Uint8Array(32).fill(7))
const signature = encodeBase58(new Uint8Array(64).fill(7))
const read = (topic: string, ...params: unknown[]) => readParams(topic as Topic, params)
const invalid = (message: string) => ({ code: -32602, message })

describe('params of the subscribe methods', () => {
  it('default to finalized and binary', () => {
    expect(read('account', key)).toMatchObject({
      commitment: 2,
      view: { encoding: 'binary', dataSlice: null },
    })
    expect(read('program', key)).toMatchObject({ commitment: 2, filters: [] })
    expect(read('block', 'all')).toMatchObject({
      commitment: 2,
      mention: null,
      view: { encoding: 'base64', details: 'full', showRewards: false, versionMax: null },
    })
    expect(read('transaction', {})).toMatchObject({ commitment: 2, view: { versionMax: 1 } })
    expect(read('slot')).toEqual({ kind: 'slot' })
    expect(readParams('slot', undefined)).toEqual({ kind: 'slot' })
  })

  it('have retractions where notifications are at processed', () => {
    const at = (commitment: string) => ({ commitment, retractions: true })
    for (const [topic, first] of [
      ['account', key],
      ['program', key],
      ['logs', 'all'],
      ['signature', signature],
      ['transaction', {}],
    ] as const) {
      expect(read(topic, first, at('processed'))).toMatchObject({ retractions: true })
      expect(read(topic, first, at('confirmed'))).toEqual(
        read(topic, first, { commitment: 'confirmed' }),
      )
      expect(read(topic, first, { commitment: 'processed', retractions: false })).toEqual(
        read(topic, first, { commitment: 'processed' }),
      )
    }
    expect(read('account', key, { retractions: 1 })).toMatchObject({ code: -32602 })
    const retractions = true
    expect(read('slot', { retractions })).toEqual({ kind: 'slot', retractions })
    expect(read('slotsUpdates', { retractions })).toEqual({ kind: 'slotsUpdates', retractions })
    expect(read('slot', { retractions: false })).toEqual({ kind: 'slot' })
    for (const params of [[{}], [null], [{ retractions, x: 1 }, 2], [true]])
      expect(read('slot', ...params)).toMatchObject({ code: -32602 })
    expect(read('root', { retractions })).toMatchObject({ code: -32602 })
  })

  it('are equal however the keys of a filter are ordered', () => {
    const other = encodeBase58(new Uint8Array(32).fill(8))
    expect(read('transaction', { accountInclude: [key, other, key] })).toEqual(
      read('transaction', { accounts: { include: [other, key] } }),
    )
  })

  it('are equal however the instructions of a filter are ordered', () => {
    const [one, two] = [{ program: key }, { program: key, dataPrefix: '3Mc6vR' }]
    expect(read('transaction', { instructions: [one, two, one] })).toEqual(
      read('transaction', { instructions: [two, { ...one, dataPrefix: '' }] }),
    )
  })

  const text = (topic: string, ...given: unknown[]) => {
    const params = read(topic, ...given)
    if ('code' in params) throw new Error(params.message)
    return paramsText(params)
  }
  const version = (maxSupportedTransactionVersion: number) => ({ maxSupportedTransactionVersion })
  const slice = (offset: number, length: number) => ({ dataSlice: { offset, length } })
  const a = { dataSize: 165 }
  const b = { memcmp: { offset: 4, bytes: '3Mc6vR' } }

  it.each([
    ['block', ['all', version(1)], ['all', version(2 ** 40)]],
    ['transaction', [{}], [{}, version(7)]],
    // As serde writes an option that is not given.
    ['transaction', [{}], [{}, { maxSupportedTransactionVersion: null }]],
    [
      'block',
      ['all', { transactionDetails: 'accounts' }],
      ['all', { transactionDetails: 'accounts', encoding: 'json' }],
    ],
    [
      'block',
      ['all', { transactionDetails: 'none' }],
      ['all', { transactionDetails: 'none', encoding: 'json', ...version(0) }],
    ],
    [
      'transaction',
      [{}, { transactionDetails: 'signatures' }],
      [
        {},
        {
          transactionDetails: 'signatures',
          showRewards: true,
          encoding: 'base58',
          maxSupportedTransactionVersion: null,
        },
      ],
    ],
    ['account', [key], [key, slice(0, 10_485_760)]],
    // A validator takes names that it does not know for the default.
    ['account', [key], [key, { commitment: 'recent' }]],
    ['account', [key], [key, { commitment: 5 }]],
    ['account', [key], [key, slice(0, 1e12)]],
    ['account', [key, slice(9, 10_485_751)], [key, slice(9, 1e12)]],
    ['account', [key, slice(0, 0)], [key, slice(77, 0)]],
    ['program', [key, slice(0, 0)], [key, slice(10_485_760, 5)]],
    ['program', [key, { filters: [a, b] }], [key, { filters: [b, a, b] }]],
  ])('of %s %j and %j are one subscription', (topic, one, other) => {
    expect(text(topic, ...one)).toBe(text(topic, ...other))
  })

  it.each([
    ['block', ['all'], ['all', version(0)]],
    [
      'block',
      ['all', { showRewards: true, transactionDetails: 'none' }],
      ['all', { transactionDetails: 'none' }],
    ],
    [
      'block',
      ['all', { transactionDetails: 'accounts' }],
      ['all', { transactionDetails: 'accounts', ...version(0) }],
    ],
    ['block', ['all', { encoding: 'json' }], ['all']],
    ['transaction', [{}, { showRewards: true }], [{}]],
    ['account', [key, slice(0, 10_485_759)], [key]],
    ['account', [key, slice(1, 5)], [key, slice(2, 5)]],
    ['program', [key, { filters: [a] }], [key, { filters: [a, b] }]],
  ])('of %s %j and %j are two', (topic, one, other) => {
    expect(text(topic, ...one)).not.toBe(text(topic, ...other))
  })

  it.each([
    ['account', ['x'], 'Invalid Request: Invalid pubkey provided'],
    ['program', [5], 'Invalid params: invalid type: integer `5`, expected a string.'],
    ['account', [], '`params` should have at least 1 argument(s)'],
    ['account', { pubkey: key }, '`params` should be an array'],
    ['signature', [key], 'Invalid Request: Invalid signature provided'],
    ['logs', [{ mentions: [] }], 'Invalid Request: Only 1 address supported'],
    ['logs', [{ mentions: [key, key] }], 'Invalid Request: Only 1 address supported'],
    ['logs', [{ mentions: ['x'] }], 'Invalid Request: Invalid mentions provided'],
    [
      'block',
      [{ mentionsAccountOrProgram: 'x' }],
      'Invalid Request: Invalid mentions_account_or_program provided',
    ],
    [
      'logs',
      ['foo'],
      'Invalid params: unknown variant `foo`, expected one of `all`, `allWithVotes`, `mentions`.',
    ],
    ['logs', [{}], 'Invalid params: invalid value: map, expected map with a single key.'],
    ['logs', ['mentions'], 'Invalid params: invalid type: unit variant, expected newtype variant.'],
    ['logs', [null], 'Invalid params: invalid type: null, expected string or map.'],
    ['logs', [{ mentions: 5 }], 'Invalid params: invalid type: integer `5`, expected a sequence.'],
    [
      'block',
      ['any'],
      'Invalid params: unknown variant `any`, expected `all` or `mentionsAccountOrProgram`.',
    ],
    [
      'account',
      [key, 5],
      'Invalid params: invalid type: integer `5`, expected struct RpcAccountInfoConfig.',
    ],
    [
      'account',
      [key, slice(-1, 1)],
      'Invalid params: invalid value: integer `-1`, expected usize.',
    ],
    ['account', [key, { dataSlice: { offset: 1 } }], 'Invalid params: missing field `length`.'],
    [
      'account',
      [key, { encoding: 'hex' }],
      'Invalid params: unknown variant `hex`, expected one of `binary`, `base58`, `base64`, ' +
        '`jsonParsed`, `base64+zstd`.',
    ],
    [
      'program',
      [key, { filters: [{ memcmp: { offset: 0, bytes: '1'.repeat(129) } }] }],
      'Invalid params: Invalid param: DataTooLarge',
    ],
    ['slot', [1], 'Invalid parameters: No parameters were expected'],
  ])('of %s %j are refused as a validator does', (topic, params, message) => {
    expect(readParams(topic as Topic, params)).toEqual(invalid(message))
  })

  it.each([
    ['account', []],
    ['account', [key, {}, {}]],
    ['account', { pubkey: key }],
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
    ['transaction', [{}, { blockTime: 1 }]],
    ['transaction', [{ instructions: {} }]],
    ['transaction', [{ instructions: [{}] }]],
    ['transaction', [{ instructions: [{ program: '?' }] }]],
    ['transaction', [{ instructions: [{ program: key, dataPrefix: '0' }] }]],
    ['transaction', [{ instructions: [{ program: key, dataPrefix: '2'.repeat(180) }] }]],
    ['transaction', [{ instructions: Array.from({ length: 65 }, () => ({ program: key })) }]],
  ])('of %s %j are refused with -32602', (topic, params) => {
    expect(readParams(topic as Topic, params)).toMatchObject({ code: -32602 })
  })

  it('of an unsubscribe are one id', () => {
    expect(readId([5])).toBe(5)
    for (const params of [[], [-1], ['5'], [1.5], [1, 2], undefined, { id: 1 }])
      expect(readId(params)).toBeNull()
  })
})
