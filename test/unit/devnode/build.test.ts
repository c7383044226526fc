// Transactions that we build and sign are decoded and verified by other libraries, and pay fees.
import { createHash } from 'node:crypto'
import { Transaction, Keypair as Web3Keypair } from '@solana/web3.js'
import { describe, expect, it } from 'vitest'
import { Keypair } from '../../../src/chain/solana/keypair.ts'
import { TransactionLayout } from '../../../src/chain/solana/transaction.ts'
import { Verifier } from '../../../src/chain/solana/verify.ts'
import {
  buildTransaction,
  memoInstruction,
  transferInstruction,
  unitLimitInstruction,
  unitPriceInstruction,
} from '../../../src/devnode/build.ts'
import { feeOf } from '../../../src/devnode/fee.ts'
import { EntryChain, merkleRoot } from '../../../src/devnode/producer.ts'

const seed = new Uint8Array(32).fill(3)
const from = Keypair.derive(seed, 'from')
const to = Keypair.derive(seed, 'to').publicKey
const blockhash = new Uint8Array(32).fill(9)

function built(...extra: Parameters<typeof buildTransaction>[0]['instructions']): Uint8Array {
  const instructions = [...extra, transferInstruction(from.publicKey, to, 1_000n)]
  return buildTransaction({ signers: [from], blockhash, instructions })
}

describe('a transaction of ours', () => {
  it('is decoded by an independent library with the same keys and a valid signature', () => {
    const read = Transaction.from(built(memoInstruction('x'.repeat(200))))
    expect(read.verifySignatures()).toBe(true)
    expect(read.instructions).toHaveLength(2)
    const known = Web3Keypair.fromSeed(createHash('sha256').update(seed).update('from').digest())
    expect(read.feePayer?.toBase58()).toBe(known.publicKey.toBase58())
  })

  it('is verified, and refused with any byte changed', () => {
    const verifier = new Verifier()
    const bytes = built()
    expect(verifier.verify(bytes)).toBe(true)
    for (let at = 0; at < bytes.length; at++) {
      const wrong = Uint8Array.from(bytes)
      wrong[at]! ^= 1
      expect(verifier.verify(wrong)).toBe(false)
    }
  })

  it('pays per signature and for its bid', () => {
    const layout = new TransactionLayout()
    const fee = (bytes: Uint8Array) => {
      expect(layout.decode(bytes)).toBe('ok')
      return feeOf(layout, bytes)
    }
    expect(fee(built()).lamports).toBe(5_000n)
    const bid = unitPriceInstruction(1_000_000n)
    expect(fee(built(bid, unitLimitInstruction(7_000)))).toMatchObject({ lamports: 12_000n })
    expect(fee(built(bid))).toMatchObject({ lamports: 11_000n, units: 6_000 })
    expect(fee(built(bid, memoInstruction('a')))).toMatchObject({ units: 206_000 })
    expect(fee(built(bid, unitLimitInstruction(9_000_000)))).toMatchObject({ units: 1_400_000 })
    // A fraction of a lamport is rounded up.
    expect(fee(built(unitPriceInstruction(1n))).lamports).toBe(5_001n)
  })
})

describe('the chain of entries', () => {
  const sha = (...parts: Uint8Array[]) => createHash('sha256').update(Buffer.concat(parts)).digest()

  it('follows the rules of proof of history', () => {
    const chain = new EntryChain(blockhash)
    const signature = new Uint8Array(64).fill(5)
    const entry = chain.record([[signature]])
    expect(Buffer.from(entry.hash)).toEqual(sha(blockhash, sha(Uint8Array.of(0), signature)))
    const tick = chain.tick()
    expect(Buffer.from(tick.hash)).toEqual(sha(entry.hash))
    expect(tick).toMatchObject({ index: 1, startingTransactionIndex: 1 })
  })

  it('pairs an odd leaf with itself', () => {
    const leaves = [1, 2, 3].map((value) => new Uint8Array(64).fill(value))
    const [a, b, c] = leaves.map((leaf) => sha(Uint8Array.of(0), leaf))
    const left = sha(Uint8Array.of(1), a!, b!)
    const right = sha(Uint8Array.of(1), c!, c!)
    expect(Buffer.from(merkleRoot(leaves))).toEqual(sha(Uint8Array.of(1), left, right))
  })
})
