import { describe, expect, test } from 'vitest'
import { Keypair } from '../../../../src/chain/solana/keypair.ts'
import { programs } from '../../../../src/chain/solana/programs.ts'
import { isCodeVariant, offsets } from '../../../../src/chain/solana/shred.ts'
import { buildTransaction, transferInstruction } from '../../../../src/devnode/build.ts'
import { ShredMaker } from '../../../../src/devnode/shred-feed.ts'
import { ShredTransactions } from '../../../../src/loadtest/race/shred-transactions.ts'
import { SeededRandom } from '../../../../src/loadtest/statistics.ts'

const wallet = new Keypair(new Uint8Array(32).fill(1))
const other = new Keypair(new Uint8Array(32).fill(2))
const blockhash = new Uint8Array(32).fill(9)

function transferOf(number: number, from = wallet): Uint8Array {
  const instructions = [transferInstruction(from.publicKey, from.publicKey, BigInt(number))]
  return buildTransaction({ signers: [from], blockhash, instructions })
}

function voteOf(number: number): Uint8Array {
  const accounts = [{ pubkey: wallet.publicKey, isSigner: true, isWritable: true }]
  const data = Uint8Array.of(number & 0xff, number >> 8)
  const instructions = [{ program: programs.vote, accounts, data }]
  return buildTransaction({ signers: [wallet], blockhash, instructions })
}

function u64(value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}

/** A batch of entries, four transactions each, and a tick at the end. */
function batchOf(transactions: readonly Uint8Array[]): Buffer {
  const entries: Buffer[] = []
  for (let at = 0; at < transactions.length; at += 4) {
    const own = transactions.slice(at, at + 4)
    entries.push(Buffer.concat([u64(1), Buffer.alloc(32), u64(own.length), ...own]))
  }
  entries.push(Buffer.concat([u64(1), Buffer.alloc(32), u64(0)]))
  return Buffer.concat([u64(entries.length), ...entries])
}

/** Data shreds of a slot with these batches. */
function shredsOf(slot: number, batches: readonly Buffer[]): Uint8Array[] {
  const maker = new ShredMaker({ version: 1, sign: () => new Uint8Array(64) })
  maker.startSlot({ slot, parent: slot - 1 })
  return batches
    .flatMap((batch, index) =>
      maker.make(batch, { isLastInSlot: index === batches.length - 1, tick: 1 }),
    )
    .filter((shred) => isCodeVariant(shred[offsets.variant]!) === false)
}

const signatureOf = (bytes: Uint8Array) => Buffer.from(bytes.subarray(1, 65)).toString('hex')
const shown = (seen: readonly { readonly signature: Uint8Array }[]) =>
  seen.map(({ signature }) => Buffer.from(signature).toString('hex'))

describe('the transactions of data shreds', () => {
  const first = Array.from({ length: 150 }, (_, index) => transferOf(index + 1))
  const second = Array.from({ length: 30 }, (_, index) => transferOf(index + 1, other))
  const shreds = shredsOf(7, [batchOf(first), batchOf(second)])

  test('are shown with the shred that makes their batch whole', () => {
    const reader = new ShredTransactions([])
    const perShred = shreds.map((shred) => shown(reader.add(shred)))
    const showing = perShred.filter((seen) => seen.length > 0)
    expect(showing).toEqual([first.map(signatureOf), second.map(signatureOf)])
    expect(perShred.at(-1)).toEqual(second.map(signatureOf))
  })

  test('are shown once, in any order of arrival, repeated shreds or not', () => {
    const random = new SeededRandom(2)
    const mixed = [...shreds, ...shreds.slice(3, 20)]
      .map((shred) => ({ shred, at: random.next() }))
      .sort((a, b) => a.at - b.at)
    const reader = new ShredTransactions([])
    const seen = mixed.flatMap(({ shred }) => reader.add(shred))
    expect(shown(seen).sort()).toEqual([...first, ...second].map(signatureOf).sort())
    expect(new Set(seen.map(({ slot }) => slot))).toEqual(new Set([7]))
  })

  test('of a batch that lost a shred are not shown, those of the next batch are', () => {
    const reader = new ShredTransactions([])
    const seen = shreds.filter((_, index) => index !== 5).flatMap((shred) => reader.add(shred))
    expect(shown(seen)).toEqual(second.map(signatureOf))
  })

  test('are only those that name an account, and no votes', () => {
    const batch = batchOf([...first.slice(0, 5), ...second.slice(0, 3), voteOf(1), voteOf(300)])
    const all = new ShredTransactions([])
    const own = new ShredTransactions([other.publicKey])
    const made = shredsOf(9, [batch])
    expect(made.flatMap((shred) => all.add(shred))).toHaveLength(8)
    expect(shown(made.flatMap((shred) => own.add(shred)))).toEqual(
      second.slice(0, 3).map(signatureOf),
    )
  })

  test('end where bytes are no transaction, without a throw', () => {
    const random = new SeededRandom(8)
    for (let round = 0; round < 12; round++) {
      const broken = Buffer.from(batchOf(first.slice(0, 20)))
      for (let at = 60; at < broken.length; at += 1 + random.below(80))
        broken[at] = random.below(256)
      const reader = new ShredTransactions([])
      for (const shred of shredsOf(11, [broken])) reader.add(shred)
    }
  })

  test('of slots far behind are dropped, so that memory is bounded', () => {
    const reader = new ShredTransactions([])
    const few = [batchOf(first.slice(0, 4))]
    for (let slot = 20; slot < 30; slot++) reader.add(shredsOf(slot, few)[0]!)
    expect(shredsOf(21, few).flatMap((shred) => reader.add(shred))).toEqual([])
    expect(shredsOf(29, few).flatMap((shred) => reader.add(shred))).toHaveLength(4)
  })
})
