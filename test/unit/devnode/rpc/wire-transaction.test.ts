import { randomBytes, randomInt } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { encodeBase58 } from '../../../../src/chain/solana/base58.ts'
import { Keypair } from '../../../../src/chain/solana/keypair.ts'
import { type AgaveVersion, shapesByVersion } from '../../../../src/chain/solana/version.ts'
import { buildTransaction, transferInstruction } from '../../../../src/devnode/build.ts'
import { wireTransactionOf } from '../../../../src/devnode/rpc/blocks.ts'
import { v1Transaction } from '../../../testkit/transaction-v1.ts'

const wireOf = (text: string, encoding: 'base58' | 'base64', agave: AgaveVersion = '4.3') =>
  wireTransactionOf(text, encoding, shapesByVersion[agave])

const from = new Keypair(randomBytes(32))
const bytes = Buffer.from(
  buildTransaction({
    signers: [from],
    blockhash: randomBytes(32),
    instructions: [transferInstruction(from.publicKey, randomBytes(32), 1n)],
  }),
)

describe('wireTransactionOf', () => {
  it('reads base58 and base64', () => {
    for (const encoding of ['base58', 'base64'] as const) {
      const text = encoding === 'base58' ? encodeBase58(bytes) : bytes.toString('base64')
      const wire = wireOf(text, encoding)
      if (!('bytes' in wire)) throw new Error(wire.message)
      expect(Buffer.from(wire.bytes).equals(bytes)).toBe(true)
      expect(wire.keyCount).toBe(3)
      expect(Buffer.from(wire.keys[0]!).equals(from.publicKey)).toBe(true)
      expect(Buffer.from(wire.signature).equals(bytes.subarray(1, 65))).toBe(true)
    }
  })

  it('refuses other texts, sizes and every truncation', () => {
    expect(wireOf('a b', 'base64')).toMatchObject({ code: -32602 })
    expect(wireOf('0OIl', 'base58')).toMatchObject({ code: -32602 })
    expect(wireOf('A'.repeat(1648), 'base64')).toMatchObject({ code: -32602 })
    const long = Buffer.alloc(1233).toString('base64')
    expect(wireOf(long, 'base64')).toMatchObject({
      message: expect.stringContaining('too large: 1233 bytes (max: 1232 bytes)'),
    })
    for (let length = 0; length < bytes.length; length++) {
      const text = bytes.subarray(0, length).toString('base64')
      expect(wireOf(text, 'base64')).toMatchObject({ code: -32602 })
    }
  })

  it('takes 4,096 bytes of version 1 in base64, and 1,232 of the others', () => {
    const made = (length: number) =>
      v1Transaction({
        signers: [from],
        readonly: [randomBytes(32)],
        blockhash: randomBytes(32),
        instructions: [{ program: 1, accounts: [], data: new Uint8Array(length) }],
      })
    const base = made(0).length
    const read = (
      length: number,
      encoding: 'base58' | 'base64' = 'base64',
      agave: AgaveVersion = '4.3',
    ) => {
      const whole = made(length - base)
      const text = Buffer.from(whole).toString('base64')
      return wireOf(encoding === 'base64' ? text : encodeBase58(whole), encoding, agave)
    }
    expect(read(4_096)).toMatchObject({ keyCount: 2 })
    expect(read(4_097)).toMatchObject({
      message: expect.stringContaining('too large: 4097 bytes (max: 4096 bytes)'),
    })
    expect(read(4_099)).toMatchObject({
      message: expect.stringContaining('too large: 5468 bytes (max: encoded/raw 5464/4096)'),
    })
    expect(read(1_232, 'base58')).toMatchObject({ keyCount: 2 })
    expect(read(1_300, 'base58')).toMatchObject({ code: -32602 })
    // agave 4.2 is the first with the longer limit, 4.1 the first that knows the version.
    expect(read(4_096, 'base64', '4.2')).toMatchObject({ keyCount: 2 })
    const tooLong = expect.stringContaining('too large: 5464 bytes (max: encoded/raw 1644/1232)')
    expect(read(4_096, 'base64', '4.1')).toMatchObject({ message: tooLong })
    expect(read(4_096, 'base64', '4.0')).toMatchObject({ message: tooLong })
    expect(read(1_232, 'base64', '4.1')).toMatchObject({ keyCount: 2 })
    expect(read(1_232, 'base64', '4.0')).toEqual({
      code: -32602,
      message:
        'failed to deserialize solana_transaction::versioned::VersionedTransaction: ' +
        'io error: failed to fill whole buffer',
    })
  })

  it('gives an error or a whole transaction for 10,000 mutations', () => {
    for (let round = 0; round < 10_000; round++) {
      const mutated = Buffer.from(bytes)
      for (let turn = 0; turn <= round % 4; turn++)
        mutated[randomInt(mutated.length)] = randomInt(256)
      const wire = wireOf(mutated.toString('base64'), 'base64')
      expect('bytes' in wire || wire.code < 0).toBe(true)
    }
  })
})
