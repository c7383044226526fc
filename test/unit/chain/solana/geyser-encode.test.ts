// What the hand-written encoders write, protobufjs must read, field by field.
import { describe, expect, it } from 'vitest'
import { BackWriter } from '../../../../src/base/protobuf.ts'
import {
  encodeAccount,
  encodeAccountInfo,
  encodeBlock,
  encodeRewards,
} from '../../../../src/chain/solana/geyser-encode.ts'
import { encodeTransaction } from '../../../../src/chain/solana/geyser-transaction.ts'
import {
  accountUpdate,
  retractionUpdate,
  slotUpdate,
} from '../../../../src/chain/solana/received-batch.ts'
import { slotStatus } from '../../../../src/chain/solana/updates.ts'
import { loadCodec } from '../../../../src/streams/geyser/codec.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

const codec = loadCodec()
const chain = new SyntheticSolana({ seed: 5 })

/** As protobufjs decodes and, from there, encodes again: the canonical bytes. */
function canonical(type: string, bytes: Uint8Array): Buffer {
  const message = codec.root.lookupType(type)
  return Buffer.from(message.encode(message.decode(bytes)).finish())
}

describe('bodies of updates', () => {
  const updates = Array.from({ length: 40 }, () => chain.next()).flat()

  it('are byte for byte what protobufjs would write', () => {
    const types = {
      account: 'geyser.SubscribeUpdateAccount',
      transaction: 'geyser.SubscribeUpdateTransaction',
      entry: 'geyser.SubscribeUpdateEntry',
      blockMeta: 'geyser.SubscribeUpdateBlockMeta',
      slot: 'geyser.SubscribeUpdateSlot',
      retraction: 'geyser.SubscribeUpdateRetraction',
    }
    const seen = new Set<string>()
    const moment = { slot: 1_000, createdAtMs: 0 }
    const taken = retractionUpdate(moment, { bank: 2, reason: 'fork', restated: [] })
    for (const update of [...updates, taken]) {
      if (update.kind === 'block') continue
      seen.add(update.kind)
      expect(Buffer.from(update.body).equals(canonical(types[update.kind], update.body))).toBe(true)
      if (update.kind === 'transaction') {
        const type = 'geyser.SubscribeUpdateTransactionStatus'
        expect(Buffer.from(update.statusBody)).toEqual(canonical(type, update.statusBody))
      }
    }
    expect(seen.size).toBe(6)
  })

  it('contain the bytes that blocks splice in', () => {
    for (const update of updates) {
      if (update.kind !== 'account' && update.kind !== 'transaction') continue
      const isAccount = update.kind === 'account'
      const type = isAccount ? 'SubscribeUpdateAccountInfo' : 'SubscribeUpdateTransactionInfo'
      const outer = isAccount ? 'SubscribeUpdateAccount' : 'SubscribeUpdateTransaction'
      const whole = codec.decode<Record<string, object>>(`geyser.${outer}`, update.body)!
      expect(codec.decode(`geyser.${type}`, update.info)).toEqual(whole[update.kind])
    }
  })

  it('have the data of an account once', () => {
    for (const txnSignature of [null, new Uint8Array(64).fill(9)])
      for (const length of [0, 1, 131_097]) {
        const data = new Uint8Array(length).fill(7)
        const account = {
          pubkey: new Uint8Array(32).fill(1),
          lamports: 5n,
          owner: new Uint8Array(32).fill(2),
          executable: false,
          rentEpoch: 0n,
          data,
          writeVersion: 300n,
          txnSignature,
        }
        const update = accountUpdate({ slot: 3, createdAtMs: 0 }, account)
        expect(Buffer.compare(update.data, data)).toBe(0)
        expect(update.data.buffer).toBe(update.body.buffer)
        expect(Buffer.compare(update.info, encodeAccountInfo(account))).toBe(0)
        const { body } = encodeAccount(update.info, { slot: 3, isStartup: false })
        expect(Buffer.compare(update.body, body)).toBe(0)
      }
  })

  it('keep every value of a transaction', () => {
    const content = chain.transaction(3)
    const { body } = encodeTransaction(77, content)
    const { root } = codec
    const type = root.lookupType('geyser.SubscribeUpdateTransaction')
    const read = type.toObject(type.decode(body), { longs: String, bytes: Buffer, defaults: true })
    const { transaction, slot } = read as Record<string, never> & { slot: string }
    expect(slot).toBe('77')
    expect(transaction).toMatchObject({
      signature: Buffer.from(content.signatures[0]!),
      isVote: content.isVote,
      index: '3',
      transaction: {
        message: {
          accountKeys: content.message.accountKeys.map((key) => Buffer.from(key)),
          versioned: content.message.versioned,
        },
      },
      meta: {
        fee: '5000',
        preBalances: content.meta.preBalances.map(String),
        postBalances: content.meta.postBalances.map(String),
        logMessages: content.meta.logMessages,
        computeUnitsConsumed: '150',
        innerInstructions: [{ index: 0, instructions: [{ stackHeight: 2 }] }],
      },
    })
  })

  it('encode a dead slot with its error, and a slot without a parent', () => {
    const moment = { slot: 0, createdAtMs: 0 }
    const dead = slotUpdate(moment, { parent: null, status: slotStatus.dead, deadError: 'x' })
    const read = codec.decode('geyser.SubscribeUpdateSlot', dead.body)
    expect(read).toMatchObject({ status: 6, deadError: 'x' })
    expect(Object.hasOwn(read as object, 'parent')).toBe(false)
  })
})

describe('blocks', () => {
  it('are spliced from encoded messages', () => {
    const block = new SyntheticSolana().next().find((update) => update.kind === 'block')!
    const rewards = encodeRewards([
      {
        pubkey: 'a',
        lamports: -5n,
        postBalance: 2n ** 63n,
        rewardType: 2,
        commission: '7',
        commissionBps: '',
      },
    ])
    const body = encodeBlock({
      slot: block.slot,
      meta: block.meta,
      rewards,
      updatedAccountCount: 9,
      transactions: block.transactions.map(({ info }) => info),
      accounts: block.accounts.map(({ info }) => info),
      entries: block.entries.map(({ body: entry }) => entry),
    })
    expect(body).toEqual(canonical('geyser.SubscribeUpdateBlock', body))
    const type = codec.root.lookupType('geyser.SubscribeUpdateBlock')
    expect(type.toObject(type.decode(body), { longs: String })).toMatchObject({
      slot: String(block.slot),
      blockhash: block.meta.blockhash,
      rewards: { rewards: [{ lamports: '-5', postBalance: '9223372036854775808' }] },
      updatedAccountCount: '9',
      transactions: block.transactions.map(() => ({})),
      accounts: block.accounts.map(() => ({})),
      entries: [{ numHashes: '12500' }],
    })
  })
})

describe('the writer', () => {
  it('grows, and writes numbers up to 64 bits', () => {
    const writer = new BackWriter()
    writer.big(3, 2n ** 64n - 1n)
    writer.number(2, Number.MAX_SAFE_INTEGER)
    writer.bytes(1, new Uint8Array(200_000).fill(7))
    const bytes = writer.take()
    expect(bytes.length).toBe(200_000 + 4 + 9 + 11)
    expect(bytes.subarray(-11).toString('hex')).toBe('18ffffffffffffffffff01')
    writer.number(1, 0)
    expect(writer.take()).toHaveLength(0)
  })
})
