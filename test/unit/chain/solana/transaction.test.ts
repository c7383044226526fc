import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { getCompiledTransactionMessageDecoder, getTransactionDecoder } from '@solana/kit'
import { describe, expect, test } from 'vitest'
import { encodeBase58 } from '../../../../src/chain/solana/base58.ts'
import { TransactionLayout } from '../../../../src/chain/solana/transaction.ts'
import { caseCount } from '../../../testkit/case-count.ts'
import { sampleTransactions } from '../../../testkit/solana-samples.ts'

const folder = process.env.SLUICE_TEST_DATA
const recorded =
  folder === undefined
    ? []
    : readdirSync(join(folder, 'transactions')).map((name) => ({
        name,
        bytes: new Uint8Array(readFileSync(join(folder, 'transactions', name))),
      }))
const samples = sampleTransactions()

describe('the transaction decoder', () => {
  for (const { name, bytes } of samples)
    test(`decodes ${name} as kit does`, () => {
      expect(described(bytes)).toEqual(kit(bytes))
    })

  test.skipIf(folder === undefined)(
    'decodes real transactions as kit does (skipped without SLUICE_TEST_DATA)',
    () => {
      expect(recorded.length).toBeGreaterThan(5)
      for (const { name, bytes } of recorded) expect(described(bytes), name).toEqual(kit(bytes))
    },
  )

  test('refuses every truncation and every trailing byte', () => {
    const layout = new TransactionLayout()
    for (const { bytes } of [...samples, ...recorded]) {
      for (let length = 0; length < bytes.length; length++)
        expect(layout.decode(bytes.subarray(0, length)), `at ${length}`).not.toBe('ok')
      expect(layout.decode(Uint8Array.of(...bytes, 0))).not.toBe('ok')
    }
  })

  test('decodes a mutated transaction to an error or to the same result as kit', () => {
    const layout = new TransactionLayout()
    const random = xorshift(0x5eed)
    const pool = [...samples, ...recorded]
    const rounds = caseCount(10_000, 100_000)
    let accepted = 0
    for (let round = 0; round < rounds; round++) {
      const bytes = Uint8Array.from(pool[random() % pool.length]!.bytes)
      for (let flips = 1 + (random() % 3); flips > 0; flips--)
        bytes[random() % bytes.length] = random() & 0xff
      if (layout.decode(bytes) !== 'ok') continue
      accepted++
      // Kit's decoder is slow: a sample of the accepted ones is compared in full.
      if (accepted % 40 === 0) expect(described(bytes)).toEqual(kit(bytes))
    }
    expect(accepted).toBeGreaterThan(rounds / 100)
  })

  test('refuses random bytes without throwing', () => {
    const layout = new TransactionLayout({ v1: true })
    const random = xorshift(7)
    for (let round = 0; round < caseCount(2_000, 20_000); round++) {
      const bytes = Uint8Array.from({ length: random() % 300 }, () => random() & 0xff)
      expect(typeof layout.decode(bytes)).toBe('string')
    }
  })

  test('returns the kind of problem', () => {
    const layout = new TransactionLayout()
    const good = samples[0]!.bytes
    expect(layout.decode(new Uint8Array(1233))).toBe('too-large')
    expect(layout.decode(new Uint8Array(0))).toBe('truncated')
    expect(layout.decode(Uint8Array.of(0x81, 0, 0))).toBe('unsupported-version')
    expect(layout.decode(changed(good, 0, 2))).not.toBe('ok')
    expect(layout.decode(Uint8Array.of(0x81, 0x00, ...good.subarray(1)))).toBe(
      'unsupported-version',
    )
    const message = 65
    expect(layout.decode(changed(good, message, 0x81))).toBe('unsupported-version')
    expect(layout.decode(changed(good, message + 1, 1))).toBe('header')
    expect(layout.decode(changed(good, message + 2, 9))).toBe('header')
  })

  test('refuses a length encoded with more bytes than needed', () => {
    const good = samples[0]!.bytes
    const aliased = Uint8Array.of(0x81, 0x00)
    expect(new TransactionLayout().decode(Uint8Array.of(...aliased, ...good.subarray(1)))).toBe(
      'unsupported-version',
    )
    // The key count of the message follows the header: 65 + 3.
    const longer = Uint8Array.of(
      ...good.subarray(0, 68),
      good[68]! | 0x80,
      0x00,
      ...good.subarray(69),
    )
    expect(new TransactionLayout().decode(longer)).toBe('bad-length')
  })
})

/** The layout in the form of kit's decoder. */
function described(bytes: Uint8Array) {
  const layout = new TransactionLayout()
  expect(layout.decode(bytes)).toBe('ok')
  const key = (at: number) => encodeBase58(bytes, at, at + 32)
  const span = (at: number, length: number) => [...bytes.subarray(at, at + length)]
  const range = (count: number) => Array.from({ length: count }, (_, index) => index)
  return {
    version: layout.version === -1 ? 'legacy' : layout.version,
    signatures: range(layout.signatureCount).map((index) =>
      span(layout.signaturesAt + 64 * index, 64),
    ),
    message: span(layout.messageAt, layout.messageEnd - layout.messageAt),
    header: [layout.requiredSignatures, layout.readonlySigned, layout.readonlyUnsigned],
    keys: range(layout.keyCount).map((index) => key(layout.keysAt + 32 * index)),
    blockhash: key(layout.blockhashAt),
    instructions: range(layout.instructionCount).map((index) => ({
      program: layout.programIndex[index],
      accounts: span(layout.accountsAt[index]!, layout.accountsCount[index]!),
      data: span(layout.dataAt[index]!, layout.dataLength[index]!),
    })),
    lookups: range(layout.lookupCount).map((index) => ({
      table: key(layout.lookupTableAt[index]!),
      writable: span(layout.lookupWritableAt[index]!, layout.lookupWritableCount[index]!),
      readonly: span(layout.lookupReadonlyAt[index]!, layout.lookupReadonlyCount[index]!),
    })),
  }
}

function kit(bytes: Uint8Array): ReturnType<typeof described> {
  const count = bytes[0] ?? 0
  const messageBytes = bytes.subarray(1 + 64 * count)
  // Kit checks that signers and signatures agree; the message is compared on its own decoder.
  getTransactionDecoder().decode(bytes)
  const message = getCompiledTransactionMessageDecoder().decode(messageBytes)
  const lookups = 'addressTableLookups' in message ? (message.addressTableLookups ?? []) : []
  return {
    version: message.version as 'legacy' | number,
    signatures: Array.from({ length: count }, (_, index) => [
      ...bytes.subarray(1 + 64 * index, 65 + 64 * index),
    ]),
    message: [...messageBytes],
    header: [
      message.header.numSignerAccounts,
      message.header.numReadonlySignerAccounts,
      message.header.numReadonlyNonSignerAccounts,
    ],
    keys: [...message.staticAccounts],
    blockhash: (message as { lifetimeToken: string }).lifetimeToken,
    instructions: (
      message as unknown as {
        instructions: {
          programAddressIndex: number
          accountIndices?: number[]
          data?: Uint8Array
        }[]
      }
    ).instructions.map((instruction) => ({
      program: instruction.programAddressIndex,
      accounts: [...(instruction.accountIndices ?? [])],
      data: [...(instruction.data ?? [])],
    })),
    lookups: lookups.map((lookup) => ({
      table: lookup.lookupTableAddress,
      writable: [...lookup.writableIndexes],
      readonly: [...lookup.readonlyIndexes],
    })),
  }
}

function changed(bytes: Uint8Array, at: number, value: number): Uint8Array {
  const copy = Uint8Array.from(bytes)
  copy[at] = value
  return copy
}

function xorshift(seed: number): () => number {
  let state = seed
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return state >>> 0
  }
}
