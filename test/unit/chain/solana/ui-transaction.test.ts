import { describe, expect, it } from 'vitest'
import { encodeBase58 } from '../../../../src/chain/solana/base58.ts'
import type { MetaContent, TransactionContent } from '../../../../src/chain/solana/geyser-decode.ts'
import { Keypair } from '../../../../src/chain/solana/keypair.ts'
import { programs } from '../../../../src/chain/solana/programs.ts'
import { TransactionLayout } from '../../../../src/chain/solana/transaction.ts'
import {
  isShowable,
  type TransactionView,
  uiTransactionText,
} from '../../../../src/chain/solana/ui-transaction.ts'
import { newestShapes } from '../../../../src/chain/solana/version.ts'
import { transactionBytes } from '../../../../src/chain/solana/wire.ts'
import { buildTransaction, transferInstruction } from '../../../../src/devnode/build.ts'
import { messageContent, signaturesOf } from '../../../../src/devnode/message-content.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

const payer = new Keypair(new Uint8Array(32).fill(1))
const to = new Uint8Array(32).fill(2)
const bytes = buildTransaction({
  signers: [payer],
  blockhash: new Uint8Array(32).fill(3),
  instructions: [transferInstruction(payer.publicKey, to, 2n ** 60n)],
})

function contentOf(raw: Uint8Array): TransactionContent {
  const layout = new TransactionLayout()
  if (layout.decode(raw) !== 'ok') throw new Error('no transaction')
  const { meta } = new SyntheticSolana().transaction(0)
  const shown: MetaContent = {
    ...meta,
    err: null,
    fee: 5000n,
    preBalances: [2n ** 64n - 1n, 0n, 1n],
    postBalances: [1n, 2n, 3n],
    preTokenBalances: [
      { accountIndex: 1, mint: 'm', owner: 'o', programId: 'p', amount: '1500000', decimals: 6 },
    ],
    postTokenBalances: [],
    loadedWritableAddresses: [],
    loadedReadonlyAddresses: [],
    returnData: { programId: to, data: Uint8Array.of(1) },
  }
  return {
    signatures: signaturesOf(layout, raw),
    isVote: false,
    index: 0,
    message: messageContent(layout, raw),
    meta: shown,
  }
}

const view = (changes: Partial<TransactionView>): TransactionView => ({
  encoding: 'json',
  details: 'full',
  showRewards: false,
  versionMax: 0,
  isSorted: false,
  ...changes,
})
const shown = (changes: Partial<TransactionView>) =>
  JSON.parse(uiTransactionText(contentOf(bytes), view(changes), newestShapes))

describe('a transaction as JSON', () => {
  it('is encoded back to its original bytes', () => {
    expect(transactionBytes(contentOf(bytes))).toEqual(Buffer.from(bytes))
    expect(shown({ encoding: 'base64' }).transaction).toEqual([
      Buffer.from(bytes).toString('base64'),
      'base64',
    ])
    expect(shown({ encoding: 'base58' }).transaction).toEqual([encodeBase58(bytes), 'base58'])
    expect(shown({ encoding: 'binary' }).transaction).toBe(encodeBase58(bytes))
  })

  it('shows its message and its outcome', () => {
    const { transaction, meta, version } = shown({})
    expect(version).toBe('legacy')
    expect(transaction.message).toMatchObject({
      header: {
        numRequiredSignatures: 1,
        numReadonlySignedAccounts: 0,
        numReadonlyUnsignedAccounts: 1,
      },
      accountKeys: [payer.publicKey, to, programs.system].map((key) => encodeBase58(key)),
      instructions: [{ programIdIndex: 2, accounts: [0, 1], stackHeight: 1 }],
    })
    expect(meta).toMatchObject({
      err: null,
      status: { Ok: null },
      fee: 5000,
      postBalances: [1, 2, 3],
      rewards: null,
      preTokenBalances: [
        {
          accountIndex: 1,
          uiTokenAmount: { amount: '1500000', decimals: 6, uiAmount: 1.5, uiAmountString: '1.5' },
        },
      ],
      loadedAddresses: { writable: [], readonly: [] },
      returnData: { programId: encodeBase58(to), data: ['AQ==', 'base64'] },
      computeUnitsConsumed: 150,
    })
    expect(uiTransactionText(contentOf(bytes), view({}), newestShapes)).toContain(
      '"preBalances":[18446744073709551615,0,1]',
    )
    expect(shown({ versionMax: null })).not.toHaveProperty('version')
  })

  it('shows parsed instructions and the flags of each key', () => {
    const [key] = shown({ encoding: 'jsonParsed' }).transaction.message.accountKeys
    expect(key).toEqual({
      pubkey: encodeBase58(payer.publicKey),
      writable: true,
      signer: true,
      source: 'transaction',
    })
    const [instruction] = shown({ encoding: 'jsonParsed' }).transaction.message.instructions
    expect(instruction).toMatchObject({
      program: 'system',
      programId: encodeBase58(programs.system),
      parsed: { type: 'transfer', info: { destination: encodeBase58(to) } },
      stackHeight: 1,
    })
  })

  it('omits the loaded addresses where instructions are parsed', () => {
    expect(shown({ encoding: 'jsonParsed' }).meta).not.toHaveProperty('loadedAddresses')
    for (const encoding of ['json', 'base64'] as const)
      expect(shown({ encoding }).meta).toHaveProperty('loadedAddresses')
  })

  it('shows a called program as writable only while the upgradeable loader is there', () => {
    const program = new Uint8Array(32).fill(9)
    const call = buildTransaction({
      signers: [payer],
      blockhash: new Uint8Array(32).fill(3),
      instructions: [
        {
          program,
          accounts: [{ pubkey: program, isSigner: false, isWritable: true }],
          data: new Uint8Array(0),
        },
      ],
    })
    const writable = (loadedReadonlyAddresses: Uint8Array[]) => {
      const content = contentOf(call)
      const meta = { ...content.meta, loadedReadonlyAddresses }
      const parsed = view({ encoding: 'jsonParsed' })
      const text = uiTransactionText({ ...content, meta }, parsed, newestShapes)
      return JSON.parse(text).transaction.message.accountKeys[1].writable
    }
    expect(writable([])).toBe(false)
    // A lookup table may bring the loader in, too.
    expect(writable([programs.upgradeableLoader])).toBe(true)
  })

  it('shows only accounts when requested', () => {
    const { transaction, meta } = shown({ details: 'accounts' })
    expect(transaction.accountKeys).toHaveLength(3)
    expect(transaction.accountKeys[2]).toMatchObject({ writable: false, signer: false })
    expect(meta).not.toHaveProperty('logMessages')
  })

  it('shows a versioned transaction only when versions are requested', () => {
    const legacy = contentOf(bytes)
    const versioned = { ...legacy, message: { ...legacy.message, versioned: true } }
    expect(isShowable(legacy, view({ versionMax: null }))).toBe(true)
    expect(isShowable(versioned, view({ versionMax: null }))).toBe(false)
    expect(isShowable(versioned, view({}))).toBe(true)
    const raw = transactionBytes(versioned)
    expect([...raw.subarray(65, 66)]).toEqual([0x80])
    expect(contentOf(raw).message).toMatchObject({ versioned: true, addressTableLookups: [] })
  })
})
