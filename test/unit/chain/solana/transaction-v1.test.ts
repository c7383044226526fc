// Transactions of version 1: decoded as kit does, refused when broken, the same after each form.
import {
  type CompiledTransactionMessage,
  getCompiledTransactionMessageDecoder,
  getTransactionDecoder,
} from '@solana/kit'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { encodeBase58 } from '../../../../src/chain/solana/base58.ts'
import { decodeTransactionInfo } from '../../../../src/chain/solana/geyser-decode.ts'
import { encodeTransaction } from '../../../../src/chain/solana/geyser-transaction.ts'
import { Keypair } from '../../../../src/chain/solana/keypair.ts'
import { TransactionLayout } from '../../../../src/chain/solana/transaction.ts'
import { isShowable, uiTransactionText } from '../../../../src/chain/solana/ui-transaction.ts'
import { newestShapes } from '../../../../src/chain/solana/version.ts'
import { transactionBytes } from '../../../../src/chain/solana/wire.ts'
import { messageContent, signaturesOf } from '../../../../src/devnode/message-content.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'
import { type V1Parts, v1Transaction } from '../../../testkit/transaction-v1.ts'

const layout = new TransactionLayout({ v1: true })
const signers = ['a', 'b', 'c'].map((name) => Keypair.derive(new Uint8Array(32), name))
const key = (value: number) => new Uint8Array(32).fill(value)
const { meta } = new SyntheticSolana({ seed: 3 }).transaction(0)

const sizes = { maxLength: 4 }
const parts: fc.Arbitrary<V1Parts> = fc
  .record({
    signers: fc.subarray(signers, { minLength: 1 }),
    writable: fc.array(fc.integer({ min: 1, max: 90 }).map(key), sizes),
    readonly: fc.array(fc.integer({ min: 91, max: 255 }).map(key), { ...sizes, minLength: 1 }),
    blockhash: fc.uint8Array({ minLength: 32, maxLength: 32 }),
    config: fc.record(
      {
        priorityFee: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
        units: fc.nat(),
        loadedBytes: fc.nat(),
        heapBytes: fc.nat(),
      },
      { requiredKeys: [] },
    ),
    calls: fc.array(
      fc.record({ accounts: fc.array(fc.nat(), sizes), data: fc.uint8Array({ maxLength: 600 }) }),
      sizes,
    ),
  })
  .map(({ calls, ...rest }) => {
    const count = rest.signers.length + rest.writable.length + rest.readonly.length
    const instructions = calls.map(({ accounts, data }) => ({
      program: count - 1,
      accounts: accounts.map((account) => account % count),
      data,
    }))
    return { ...rest, instructions }
  })

function contentOf(bytes: Uint8Array) {
  const message = messageContent(layout, bytes)
  const signatures = signaturesOf(layout, bytes)
  const loaded = { loadedWritableAddresses: [], loadedReadonlyAddresses: [] }
  return { signatures, isVote: false, index: 0, message, meta: { ...meta, ...loaded } }
}

describe('a transaction of version 1', () => {
  it('is decoded as kit does', () => {
    fc.assert(
      fc.property(parts, (made) => {
        const bytes = v1Transaction(made)
        expect(layout.decode(bytes)).toBe('ok')
        const { messageBytes } = getTransactionDecoder().decode(bytes)
        expect([...messageBytes]).toEqual([...bytes.subarray(0, layout.messageEnd)])
        // Reason for the cast: a message of version 1 is what the bytes are.
        const theirs = getCompiledTransactionMessageDecoder().decode(
          messageBytes,
        ) as CompiledTransactionMessage & {
          version: 1
          configMask: number
          configValues: unknown[]
        }
        const ours = messageContent(layout, bytes)
        expect(theirs.version).toBe(layout.version)
        expect(theirs.configMask).toBe(layout.configMask)
        expect(theirs.staticAccounts).toEqual(ours.accountKeys.map((one) => encodeBase58(one)))
        const { config } = ours
        expect(config).toEqual({
          priorityFee: made.config?.priorityFee ?? null,
          computeUnitLimit: made.config?.units ?? null,
          loadedAccountsDataSizeLimit: made.config?.loadedBytes ?? null,
          heapSize: made.config?.heapBytes ?? null,
        })
        expect(theirs.configValues).toHaveLength(
          Object.values(config!).filter((value) => value !== null).length,
        )
      }),
      { numRuns: 300 },
    )
  })

  it('has the same bytes after geyser, and after the forms of JSON-RPC', () => {
    fc.assert(
      fc.property(parts, (made) => {
        const bytes = v1Transaction(made)
        expect(layout.decode(bytes)).toBe('ok')
        const content = contentOf(bytes)
        expect(transactionBytes(content).equals(bytes)).toBe(true)
        const { info } = encodeTransaction(7, content)
        const read = decodeTransactionInfo(info)
        expect(transactionBytes(read).equals(bytes)).toBe(true)
        expect(read.message.config).toEqual(content.message.config)
      }),
      { numRuns: 300 },
    )
  })

  it('is shown with its config to clients that know the version', () => {
    const made = {
      signers: [signers[0]!],
      readonly: [key(99)],
      blockhash: key(1),
      config: { priorityFee: 5n, units: 7 },
      instructions: [{ program: 1, accounts: [0], data: Uint8Array.of(1, 2) }],
    }
    const bytes = v1Transaction(made)
    layout.decode(bytes)
    const content = contentOf(bytes)
    const form = { encoding: 'json', details: 'full' } as const
    const view = { ...form, showRewards: false, isSorted: false }
    expect(isShowable(content, { ...view, versionMax: null })).toBe(false)
    expect(isShowable(content, { ...view, versionMax: 0 })).toBe(false)
    expect(isShowable(content, { ...view, versionMax: 1 })).toBe(true)
    const shown = JSON.parse(uiTransactionText(content, { ...view, versionMax: 1 }, newestShapes))
    expect(shown.version).toBe(1)
    expect(shown.transaction.message).toMatchObject({
      header: { numRequiredSignatures: 1, numReadonlyUnsignedAccounts: 1 },
      transactionConfig: {
        priorityFee: 5,
        computeUnitLimit: 7,
        loadedAccountsDataSizeLimit: null,
        heapSize: null,
      },
    })
    expect(shown.transaction.message).not.toHaveProperty('addressTableLookups')
  })

  it('is refused when it is cut, longer or changed beyond its rules', () => {
    fc.assert(
      fc.property(parts, fc.nat(), fc.nat(255), (made, at, value) => {
        const bytes = Uint8Array.from(v1Transaction(made))
        expect(layout.decode(bytes.subarray(0, at % bytes.length))).not.toBe('ok')
        expect(layout.decode(Uint8Array.of(...bytes, 0))).not.toBe('ok')
        bytes[at % bytes.length] = value
        // A changed one is refused, or is another transaction whose bytes are these.
        if (layout.decode(bytes) !== 'ok' || layout.version !== 1) return
        expect(transactionBytes(contentOf(bytes)).equals(bytes)).toBe(true)
      }),
      { numRuns: 2_000 },
    )
  })

  it('is refused beyond its bounds, and by decoders that do not take it', () => {
    const one = { program: 1, accounts: [], data: new Uint8Array(0) }
    const made = { signers: [signers[0]!], readonly: [key(99)], blockhash: key(1) }
    const decoded = (more: Partial<V1Parts>) =>
      layout.decode(v1Transaction({ ...made, instructions: [one], ...more }))
    expect(decoded({})).toBe('ok')
    const filled = (length: number) => ({
      instructions: [{ ...one, data: new Uint8Array(length) }],
    })
    const base = v1Transaction({ ...made, instructions: [one] }).length
    expect(decoded(filled(4_096 - base))).toBe('ok')
    expect(decoded(filled(4_097 - base))).toBe('too-large')
    expect(decoded({ instructions: Array.from({ length: 64 }, () => one) })).toBe('ok')
    expect(decoded({ instructions: Array.from({ length: 65 }, () => one) })).not.toBe('ok')
    const keys = (count: number) => Array.from({ length: count }, (_, index) => key(index + 9))
    expect(decoded({ readonly: keys(63) })).toBe('ok')
    expect(decoded({ readonly: keys(64) })).not.toBe('ok')
    const many = (count: number) =>
      Array.from({ length: count }, (_, index) => Keypair.derive(key(1), `signer ${index}`))
    expect(decoded({ signers: many(12), instructions: [] })).toBe('ok')
    expect(decoded({ signers: many(13), instructions: [] })).toBe('signature-count')
    expect(decoded({ instructions: [{ ...one, program: 0 }] })).toBe('program-index')
    expect(decoded({ instructions: [{ ...one, accounts: [2] }] })).toBe('account-index')
    for (const mask of [1, 2, 32, 1 << 31]) {
      const bytes = Buffer.from(v1Transaction({ ...made, instructions: [one] }))
      bytes.writeUInt32LE(mask >>> 0, 4)
      expect(layout.decode(bytes)).toBe('config')
    }
    const bytes = v1Transaction({ ...made, instructions: [one] })
    expect(new TransactionLayout().decode(bytes)).toBe('unsupported-version')
  })
})
