// The params that a node gets say the same as the params of the customer, in one form.
import { describe, expect, it } from 'vitest'
import { wantedParams } from '../../../../src/products/websocket/wanted-params.ts'
import { readers } from '../../../../src/pubsub/params.ts'
import { type Wanted, wantedText } from '../../../../src/pubsub/wanted.ts'

const key = 'So11111111111111111111111111111111111111112'
const other = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA'
const signature = '1'.repeat(64)

const wishes: readonly (readonly [string, unknown])[] = [
  ['account', [key]],
  ['account', [key, { encoding: 'base64+zstd', dataSlice: { offset: 1, length: 2 } }]],
  ['program', [key, { commitment: 'processed', encoding: 'jsonParsed' }]],
  [
    'program',
    [
      key,
      {
        filters: [
          { dataSize: 165 },
          { memcmp: { offset: 4, bytes: '3Mc6vR' } },
          { memcmp: { offset: 0, bytes: 'AQID', encoding: 'base64' } },
          'tokenAccountState',
        ],
      },
    ],
  ],
  ['logs', ['all']],
  ['logs', ['allWithVotes', { commitment: 'confirmed' }]],
  ['logs', [{ mentions: [key] }]],
  ['signature', [signature, { commitment: 'confirmed', enableReceivedNotification: true }]],
  ['block', ['all', { transactionDetails: 'signatures', maxSupportedTransactionVersion: 0 }]],
  ['block', [{ mentionsAccountOrProgram: key }, { showRewards: true, encoding: 'json' }]],
  ['transaction', [{ vote: false, failed: true, accounts: { include: [other, key] } }]],
  ['transaction', [{ signature, accountExclude: [key], accountRequired: [other] }]],
  ['slot', []],
  ['slotsUpdates', []],
  ['root', []],
]

const read = (topic: string, params: unknown): Wanted => {
  const wanted = readers[topic]!(params)
  if ('code' in wanted) throw new Error(wanted.message)
  return wanted
}

describe('the params for a node', () => {
  it.each(wishes)('say what the customer of %s said: %j', (topic, params) => {
    const wanted = read(topic, params)
    const again = read(topic, JSON.parse(wantedParams(wanted)))
    expect(wantedText(again)).toBe(wantedText(wanted))
  })

  it('are one text for one wish, however it is written', () => {
    const plain = wantedParams(read('account', [key]))
    expect(wantedParams(read('account', [key, { commitment: 'finalized' }]))).toBe(plain)
    expect(wantedParams(read('account', [key, { encoding: 'binary', what: 1 }]))).toBe(plain)
    const twice = read('transaction', [{ accountInclude: [other, key, key] }])
    expect(wantedParams(twice)).toBe(
      wantedParams(read('transaction', [{ accounts: { include: [key, other] } }, null])),
    )
  })
})
