import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { TransactionContent } from '../../../../src/chain/solana/geyser-decode.ts'
import {
  decodeDeadError,
  decodeEntryTransactions,
  decodePlainRewards,
  decodeRewards,
  decodeTransactionInfo,
} from '../../../../src/chain/solana/geyser-decode.ts'
import {
  encodeEntry,
  encodeRewards,
  encodeSlot,
} from '../../../../src/chain/solana/geyser-encode.ts'
import { encodeTransaction } from '../../../../src/chain/solana/geyser-transaction.ts'
import { uiTransactionText } from '../../../../src/chain/solana/ui-transaction.ts'
import { newestShapes } from '../../../../src/chain/solana/version.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

/** Buffers and arrays of bytes compare as plain lists. */
const plain = (value: unknown): unknown =>
  value instanceof Uint8Array
    ? [...value]
    : Array.isArray(value)
      ? value.map(plain)
      : typeof value === 'object' && value !== null
        ? Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]))
        : value

const again = (content: TransactionContent) =>
  plain(decodeTransactionInfo(encodeTransaction(7, content).info))

describe('geyser messages read back', () => {
  it('give the transaction that was encoded', () => {
    const chain = new SyntheticSolana({ seed: 5 })
    for (let index = 0; index < 200; index++) {
      const content = chain.transaction(index)
      expect(again(content)).toEqual(plain(content))
    }
    const content = chain.transaction(0)
    const silent = { innerInstructions: null, logMessages: null, computeUnitsConsumed: null }
    const bare = { ...content, meta: { ...content.meta, ...silent, fee: 2n ** 64n - 1n } }
    expect(again(bare)).toEqual(plain(bare))
  })

  it('give rewards, entries and the reason of a dead slot', () => {
    const reward = {
      pubkey: 'x',
      lamports: -5n,
      postBalance: 2n ** 63n,
      rewardType: 3,
      commission: '7',
      commissionBps: '725',
    }
    const encoded = encodeRewards([reward, reward])
    expect(decodeRewards(encoded)).toEqual([reward, reward])
    expect(decodePlainRewards(encoded)).toEqual([reward, reward])
    // With partitions, and with a field that no release has yet.
    expect(decodePlainRewards(Buffer.concat([encoded, Buffer.from([0x12, 0])]))).toBeNull()
    expect(decodePlainRewards(Uint8Array.of(0x0a, 3, 0x3a, 1, 0x31))).toBeNull()
    const entry = {
      index: 3,
      numHashes: 9,
      hash: new Uint8Array(32),
      executedTransactionCount: 64,
      startingTransactionIndex: 1,
    }
    expect(decodeEntryTransactions(encodeEntry(1, entry))).toBe(64)
    const slot = { slot: 2 ** 40, parent: 1, status: 6, deadError: 'late' }
    expect(decodeDeadError(encodeSlot(slot))).toBe('late')
  })

  it('are shown as JSON whatever a node writes into the texts of balances and rewards', () => {
    const content = new SyntheticSolana().transaction(0)
    const text = '1","a":"\n'
    const balance = { accountIndex: 1, mint: text, owner: text, programId: text, amount: text }
    const reward = {
      ...{ pubkey: text, lamports: 1n, postBalance: 2n, rewardType: 1 },
      ...{ commission: text, commissionBps: '-1' },
    }
    const meta = {
      ...content.meta,
      preTokenBalances: [{ ...balance, decimals: 300 }],
      rewards: [reward],
    }
    const read = decodeTransactionInfo(encodeTransaction(7, { ...content, meta }).info)
    const view = { details: 'full', versionMax: 0, isSorted: true, showRewards: true } as const
    const shown = JSON.parse(uiTransactionText(read, { ...view, encoding: 'json' }, newestShapes))
    const [before] = shown.meta.preTokenBalances
    expect(before).toMatchObject({ mint: text, owner: text, programId: text })
    expect(before.uiTokenAmount).toMatchObject({ amount: '0', decimals: 255 })
    expect(shown.meta.rewards[0]).toMatchObject({ pubkey: text, commission: null })
    expect(shown.meta.rewards[0]).not.toHaveProperty('commissionBps')
  })

  it('never throw, whatever the bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => {
        decodeTransactionInfo(bytes)
        decodePlainRewards(bytes)
        decodeEntryTransactions(bytes)
      }),
      { numRuns: 300 },
    )
  })
})
