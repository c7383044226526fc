// Single shreds: which are refused, rebuilt or ignored.
import { describe, expect, test } from 'vitest'
import { finish } from '../../../../src/base/steps.ts'
import {
  flawOf,
  flaws,
  leafOf,
  offsets,
  slotOf,
  variants,
} from '../../../../src/chain/solana/shred.ts'
import { ShredSet } from '../../../../src/chain/solana/shred-set.ts'
import { LeaderSignatures } from '../../../../src/chain/solana/shred-signature.ts'
import { transactionBytes } from '../../../../src/chain/solana/wire.ts'
import { encodeEntries, ShredMaker } from '../../../../src/devnode/shred-feed.ts'
import {
  joinBatch,
  makeShreds,
  randomBytes,
  randomOf,
  signerOf,
  testLeader,
  testSeed,
  testVersion,
} from '../../../testkit/shreds.ts'

const shreds = makeShreds({ slots: 1, sets: 2 })
const data = shreds[0]!
const code = shreds[32]!
const last = shreds[64 + 31]!

function changed(shred: Uint8Array, at: number, value: number): number {
  const copy = Uint8Array.from(shred)
  copy[at] = value
  return flawOf(copy, 0, copy.length, testVersion)
}

describe('a shred', () => {
  test('is accepted with or without the nonce of a repair, and at no other size', () => {
    for (const shred of [data, code, last]) {
      const wide = new Uint8Array(2000)
      wide.set(shred)
      for (let length = 0; length <= 2000; length += 1) {
        const extra = length - shred.length
        const expected = extra >= 0 && extra <= 4 ? flaws.none : flaws.size
        expect(flawOf(wide, 0, length, testVersion), `${length}`).toBe(expected)
      }
    }
  })

  test('is read at any offset of a buffer', () => {
    const wide = new Uint8Array(3000)
    wide.set(code, 777)
    expect(flawOf(wide, 777, code.length, testVersion)).toBe(flaws.none)
    expect(slotOf(wide, 777)).toBe(1000)
    expect(leafOf(wide, 777)).toBe(32)
  })

  test('is refused by its first flaw', () => {
    for (let variant = 0; variant < 256; variant += 1)
      if (!Object.values(variants).some((known) => known === variant))
        expect(changed(data, offsets.variant, variant)).toBe(flaws.variant)
    expect(changed(data, offsets.version, 0)).toBe(flaws.version)
    expect(changed(data, offsets.slot + 6, 1)).toBe(flaws.slot)
    expect(changed(data, offsets.slot + 7, 255)).toBe(flaws.slot)
    expect(changed(data, offsets.index, 32)).toBe(flaws.layout)
    expect(changed(data, offsets.index + 2, 1)).toBe(flaws.layout)
    expect(changed(data, offsets.set, 1)).toBe(flaws.layout)
    expect(changed(data, offsets.flags, 0x80)).toBe(flaws.layout)
    expect(changed(data, offsets.flags, 0x40)).toBe(flaws.layout)
    expect(changed(data, offsets.flags, 0xc0)).toBe(flaws.layout)
    expect(changed(data, offsets.size + 1, 0)).toBe(flaws.layout)
    expect(changed(data, offsets.size + 1, 255)).toBe(flaws.layout)
    expect(changed(data, offsets.parent, 0)).toBe(flaws.layout)
    expect(changed(code, offsets.dataCount, 31)).toBe(flaws.layout)
    expect(changed(code, offsets.codeCount, 33)).toBe(flaws.layout)
    expect(changed(code, offsets.position, 32)).toBe(flaws.layout)
    expect(changed(code, offsets.position, 1)).toBe(flaws.layout)
  })

  test('of noise is refused and never throws', () => {
    const next = randomOf(99)
    for (let round = 0; round < 5000; round += 1) {
      const noise = randomBytes(Math.floor(next() * 2001), round + 1)
      expect(flawOf(noise, 0, noise.length, testVersion)).not.toBe(flaws.none)
    }
  })
})

describe('a set', () => {
  test('of shreds that do not belong together rebuilds nothing', () => {
    const set = new ShredSet()
    for (const shred of shreds.slice(0, 31)) set.add(shred, 0)
    const forged = Uint8Array.from(shreds[40]!)
    forged[500]! ^= 1
    set.add(forged, 0)
    expect(set.isRipe).toBe(true)
    expect(finish(set.rebuild())).toBe(null)
    expect(set.isRipe).toBe(false)
  })

  test('that is complete has nothing to rebuild, and a shred counts once', () => {
    const set = new ShredSet()
    for (const shred of shreds.slice(0, 64)) {
      set.add(shred, 0)
      set.add(shred, 0)
    }
    expect(set.count).toBe(64)
    expect(set.isDone).toBe(true)
  })
})

describe('the maker', () => {
  test('flags the end of a batch and of the slot, and chains sets', () => {
    const maker = new ShredMaker({ version: testVersion, sign: signerOf(testSeed) })
    maker.startSlot({ slot: 5, parent: 4 })
    const batch = randomBytes(40_000, 3)
    const first = maker.make(batch, { isLastInSlot: false, tick: 70 })
    const end = maker.make(batch.subarray(0, 100), { isLastInSlot: true, tick: 70 })
    expect([first.length, end.length]).toEqual([128, 64])
    for (const shred of [...first, ...end])
      expect(flawOf(shred, 0, shred.length, testVersion)).toBe(flaws.none)
    const dataOf = (list: readonly Uint8Array[]) => list.filter((shred) => shred.length === 1203)
    expect(Buffer.compare(joinBatch(dataOf(first))!, batch)).toBe(0)
    expect(Buffer.compare(joinBatch(dataOf(end))!, batch.subarray(0, 100))).toBe(0)
    expect(dataOf(first).at(-1)![offsets.flags]).toBe(0x7f)
    expect(dataOf(end).at(-1)![offsets.flags]).toBe(0xff)
    const leaders = new LeaderSignatures([new Uint8Array(32).fill(9), testLeader])
    expect([...first, ...end].every((shred) => leaders.check(shred) === true)).toBe(true)
  })

  test('writes entries and transactions as the wire has them', () => {
    const message = {
      numRequiredSignatures: 1,
      numReadonlySignedAccounts: 0,
      numReadonlyUnsignedAccounts: 1,
      accountKeys: [new Uint8Array(32).fill(1), new Uint8Array(32).fill(2)],
      recentBlockhash: new Uint8Array(32).fill(3),
      instructions: [
        { programIdIndex: 1, accounts: Uint8Array.of(0), data: new Uint8Array(200).fill(4) },
      ],
      versioned: true,
      config: null,
      addressTableLookups: [
        {
          accountKey: new Uint8Array(32).fill(5),
          writableIndexes: Uint8Array.of(1, 2),
          readonlyIndexes: Uint8Array.of(),
        },
      ],
    }
    const signatures = [new Uint8Array(64).fill(6)]
    // Reason for the cast: the encoder does not read the outcome of the transaction.
    const transaction = { signatures, message } as never
    const wire = transactionBytes(transaction)
    const expected =
      `01${'06'.repeat(64)}80010001` +
      `02${'01'.repeat(32)}${'02'.repeat(32)}${'03'.repeat(32)}` +
      `01010100c801${'04'.repeat(200)}01${'05'.repeat(32)}02010200`
    expect(Buffer.from(wire).toString('hex')).toBe(expected)
    const entry = { index: 0, numHashes: 7, hash: new Uint8Array(32).fill(8) }
    const batch = encodeEntries(
      [
        { ...entry, executedTransactionCount: 1, startingTransactionIndex: 0 },
        { ...entry, executedTransactionCount: 0, startingTransactionIndex: 1 },
      ],
      [transaction],
    )
    const head = (count: string) => `07${'00'.repeat(7)}${'08'.repeat(32)}${count}${'00'.repeat(7)}`
    expect(Buffer.from(batch).toString('hex')).toBe(
      `02${'00'.repeat(7)}${head('01')}${expected}${head('00')}`,
    )
  })
})
