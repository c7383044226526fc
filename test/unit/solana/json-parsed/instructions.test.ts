import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { encodeBase58 } from '../../../../src/solana/base58.ts'
import { parsedInstruction } from '../../../../src/solana/json-parsed/instructions.ts'
import { programs } from '../../../../src/solana/programs.ts'

const keys = Array.from({ length: 8 }, () => randomBytes(32))
const names = keys.map((key) => encodeBase58(key))

/** The instruction with the first so many keys as its accounts. */
function shown(program: Uint8Array, accounts: number, data: Uint8Array) {
  const instruction = {
    programIdIndex: 8,
    accounts: Uint8Array.from({ length: accounts }, (_, index) => index),
    data,
  }
  return parsedInstruction(instruction, [...keys, program], 1)
}

function bytes(tag: number[], ...values: (bigint | Uint8Array | string)[]): Buffer {
  const parts = values.map((value) => {
    if (typeof value === 'string')
      return Buffer.concat([bytes([], BigInt(value.length)), Buffer.from(value)])
    if (typeof value !== 'bigint') return value
    const u64 = Buffer.alloc(8)
    u64.writeBigUInt64LE(value)
    return u64
  })
  return Buffer.concat([Uint8Array.from(tag), ...parts])
}

describe('jsonParsed instructions', () => {
  it('shows the system program', () => {
    const created = shown(programs.system, 2, bytes([0, 0, 0, 0], 5n, 6n, keys[7]!))
    expect(created).toEqual({
      parsed: {
        type: 'createAccount',
        info: { lamports: 5n, newAccount: names[1], owner: names[7], source: names[0], space: 6n },
      },
      program: 'system',
      programId: '11111111111111111111111111111111',
      stackHeight: 1,
    })
    const seeded = shown(
      programs.system,
      2,
      bytes([3, 0, 0, 0], keys[6]!, 'seed', 1n, 2n, keys[7]!),
    )
    expect(seeded).toMatchObject({
      parsed: { type: 'createAccountWithSeed', info: { base: names[6], seed: 'seed', space: 2n } },
    })
  })

  it('shows tokens, with one signer or a multisig', () => {
    expect(shown(programs.token, 3, bytes([3], 9n))).toMatchObject({
      program: 'spl-token',
      parsed: {
        type: 'transfer',
        info: { amount: '9', authority: names[2], destination: names[1], source: names[0] },
      },
    })
    expect(shown(programs.token2022, 6, bytes([12], 1_500n, Uint8Array.of(3)))).toMatchObject({
      parsed: {
        type: 'transferChecked',
        info: {
          multisigAuthority: names[3],
          signers: [names[4], names[5]],
          tokenAmount: { uiAmountString: '1.5' },
        },
      },
    })
    const handed = shown(programs.token, 2, bytes([6, 2, 1], keys[7]!))
    expect(handed).toMatchObject({
      parsed: {
        type: 'setAuthority',
        info: { account: names[0], authorityType: 'accountOwner', newAuthority: names[7] },
      },
    })
  })

  it('shows memos, associated accounts and lookup tables', () => {
    expect(shown(programs.memo, 0, Buffer.from('hi'))).toMatchObject({
      parsed: 'hi',
      program: 'spl-memo',
    })
    expect(shown(programs.associatedToken, 6, bytes([1]))).toMatchObject({
      program: 'spl-associated-token-account',
      parsed: { type: 'createIdempotent', info: { wallet: names[2], mint: names[3] } },
    })
    const extended = shown(programs.addressLookupTable, 4, bytes([2, 0, 0, 0], 1n, keys[7]!))
    expect(extended).toMatchObject({
      parsed: { type: 'extendLookupTable', info: { newAddresses: [names[7]] } },
    })
  })

  it('shows unknown instructions with accounts and data, and never throws on noise', () => {
    expect(shown(programs.computeBudget, 0, bytes([2, 1, 0, 0, 0]))).toEqual({
      accounts: [],
      data: encodeBase58(Uint8Array.of(2, 1, 0, 0, 0)),
      programId: 'ComputeBudget111111111111111111111111111111',
      stackHeight: 1,
    })
    expect(shown(programs.system, 1, bytes([2, 0, 0, 0], 1n))).toMatchObject({
      accounts: [names[0]],
    })
    // The count of the addresses is cut off.
    expect(shown(programs.addressLookupTable, 2, bytes([2, 0, 0, 0]))).not.toHaveProperty('parsed')
    const all = Object.values(programs)
    for (let round = 0; round < 3_000; round++) {
      const data = randomBytes(round % 60)
      if (data.length > 3) data.set([data[0]! % 26, 0, 0, 0])
      expect(() => shown(all[round % all.length]!, round % 9, data)).not.toThrow()
    }
  })
})
