// Shreds that a validator made: our parser, maker and recovery agree with them byte for byte.
import { describe, expect, test } from 'vitest'
import { finish } from '../../../../src/base/steps.ts'
import {
  flawOf,
  flaws,
  indexOf,
  isCodeVariant,
  offsets,
  rootOf,
} from '../../../../src/chain/solana/shred.ts'
import { encodeParity, ShredSet } from '../../../../src/chain/solana/shred-set.ts'
import { LeaderSignatures } from '../../../../src/chain/solana/shred-signature.ts'
import { ShredMaker } from '../../../../src/devnode/shred-feed.ts'
import { demo, joinBatch, publicKeyOfSeed, shuffled, signerOf } from '../../../testkit/shreds.ts'

describe.skipIf(demo.pcap.isMissing)(demo.pcap.title('the recorded shreds'), () => {
  test('are all well formed, and of their version only', () => {
    const shreds = demo.shreds()
    expect(shreds.length).toBe(512)
    for (const shred of shreds) {
      expect(flawOf(shred, 0, shred.length, demo.version)).toBe(flaws.none)
      expect(flawOf(shred, 0, shred.length, 0)).toBe(flaws.none)
      expect(flawOf(shred, 0, shred.length, demo.version + 1)).toBe(flaws.version)
    }
  })

  test('are reproduced from their entries and key, byte for byte', () => {
    const maker = new ShredMaker({
      version: demo.version,
      sign: signerOf(demo.seed()),
      chainedRoot: demo.chainedRoot,
    })
    maker.startSlot({ slot: 0, parent: 0 })
    const made = maker.make(demo.batch(), { isLastInSlot: true, tick: 0 })
    const recorded = demo.shreds()
    expect(made.length).toBe(recorded.length)
    for (const [place, shred] of made.entries())
      expect(Buffer.compare(shred, recorded[place]!), `shred ${place}`).toBe(0)
  })

  test('carry the leader’s signature: one check for each set', () => {
    expect(Buffer.from(publicKeyOfSeed(demo.seed()))).toEqual(Buffer.from(demo.leader()))
    const leaders = new LeaderSignatures([demo.leader()])
    expect(demo.shreds().every((shred) => leaders.check(shred) === true)).toBe(true)
    expect(leaders.checks).toBe(8)
    const stranger = new LeaderSignatures([publicKeyOfSeed(new Uint8Array(32))])
    expect(demo.shreds().some((shred) => stranger.check(shred) !== false)).toBe(false)
  })

  test('lose their root with any changed byte that the proof covers', () => {
    const shred = Uint8Array.from(demo.shreds()[0]!)
    const root = rootOf(shred)
    for (const at of [offsets.slot, offsets.index + 1, offsets.dataPayload, 1051, 1083, 1202]) {
      shred[at]! ^= 1
      expect(rootOf(shred).equals(root), `byte ${at}`).toBe(false)
      shred[at]! ^= 1
    }
    expect(rootOf(shred).equals(root)).toBe(true)
  })

  test('are rebuilt from any 32 of the 64 of a set', () => {
    const shreds = demo.shreds()
    for (let set = 0; set < 8; set += 1) {
      const all = shreds.slice(set * 64, set * 64 + 64)
      const picks = [
        all.slice(0, 32),
        all.slice(32),
        ...[1, 2].map((seed) => shuffled(all, seed + set).slice(0, 32)),
      ]
      for (const arrived of picks) {
        const fec = new ShredSet()
        for (const shred of arrived) fec.add(shred, 0)
        expect(fec.isRipe).toBe(true)
        const whole = [...arrived, ...finish(fec.rebuild())!]
        const texts = (list: readonly Uint8Array[]) =>
          list.map((shred) => Buffer.from(shred).toString('base64')).sort()
        expect(texts(whole)).toEqual(texts(all))
      }
    }
  })

  test('join to the batch that they carry', () => {
    const data = demo
      .shreds()
      .filter((shred) => isCodeVariant(shred[offsets.variant]!) === false)
      .sort((a, b) => indexOf(a) - indexOf(b))
    expect(Buffer.compare(joinBatch(data)!, demo.batch())).toBe(0)
    expect(joinBatch(data.slice(0, -1))).toBe(null)
    expect(joinBatch([...data.slice(0, 5), ...data.slice(6)])).toBe(null)
  })
})

test('the parity matrix is the one that clusters use', () => {
  // Unit vectors as data: byte n of a parity shard is the coefficient of data shard n.
  const data = Array.from({ length: 32 }, (_, row) => {
    const shard = new Uint8Array(32)
    shard[row] = 1
    return shard
  })
  const parity = data.map(() => new Uint8Array(32))
  encodeParity(data, parity)
  expect([...parity[0]!.subarray(0, 8)]).toEqual([196, 5, 127, 21, 43, 73, 246, 114])
})
