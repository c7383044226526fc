// Admission: first copies of valid shreds are forwarded, everything else is dropped by reason.
import { describe, expect, test } from 'vitest'
import { codeShredBytes, offsets } from '../../../../src/chain/solana/shred.ts'
import { LeaderSignatures } from '../../../../src/chain/solana/shred-signature.ts'
import { Recovery, ShredAdmission, verdicts } from '../../../../src/products/shredstream/admit.ts'
import { SharedStats } from '../../../../src/products/shredstream/shared-stats.ts'
import { SlotWindow, windowBytes } from '../../../../src/products/shredstream/window.ts'
import {
  makeShreds,
  publicKeyOfSeed,
  randomBytes,
  randomOf,
  shuffled,
  testLeader,
  testVersion,
} from '../../../testkit/shreds.ts'
import { asTexts } from '../../../testkit/shredstream.ts'

interface Options {
  readonly leaders?: readonly Uint8Array[]
  readonly recover?: boolean
  readonly window?: SharedArrayBuffer
}

function open(options: Options = {}) {
  const stats = new SharedStats()
  const window = new SlotWindow(options.window ?? new SharedArrayBuffer(windowBytes), stats)
  const recovery = options.recover === true ? new Recovery(stats) : null
  const signatures = options.leaders === undefined ? null : new LeaderSignatures(options.leaders)
  const admission = new ShredAdmission(stats, window, {
    version: testVersion,
    signatures,
    recovery,
  })
  const admit = (packet: Uint8Array, { source = 0, nowMs = 1000 } = {}) =>
    admission.admit(packet, 0, packet.length, source, nowMs)
  const totals = () => stats.totals.row(0)
  /** Steps until the long work is done; returns the shreds of each step. */
  const turns = () => {
    const given: (readonly Uint8Array[])[] = []
    while (admission.isBusy && given.length < 10_000) given.push(admission.step(1000))
    return given
  }
  return { stats, admission, signatures, admit, totals, turns }
}

function withSlot(shred: Uint8Array, slot: number): Uint8Array {
  const copy = Uint8Array.from(shred)
  new DataView(copy.buffer).setBigUint64(offsets.slot, BigInt(slot), true)
  return copy
}

const shreds = makeShreds({ slots: 2, sets: 2 })
const strangers = Array.from({ length: 100 }, (_, index) =>
  publicKeyOfSeed(new Uint8Array(32).fill(index + 100)),
)

describe('admission', () => {
  test('accepts each id once, whatever a retransmitter signed', () => {
    const { admit, totals } = open()
    for (const shred of shuffled(shreds, 5)) expect(admit(shred)).not.toBe(verdicts.drop)
    for (const shred of shreds) {
      const other = Uint8Array.from(shred)
      other[other.length - 1]! ^= 1
      expect(admit(other, { source: 1 })).toBe(verdicts.drop)
    }
    expect(totals()).toMatchObject({ accepted: shreds.length, duplicate: shreds.length })
  })

  test('counts unknown sources and flaws by reason and forwards none of them', () => {
    const { admit, totals } = open()
    expect(admit(shreds[0]!, { source: -1 })).toBe(verdicts.drop)
    const next = randomOf(3)
    for (let round = 0; round < 2000; round += 1)
      expect(admit(randomBytes(Math.floor(next() * 2001), round + 1))).toBe(verdicts.drop)
    expect(totals()).toMatchObject({ source: 1, accepted: 0, received: 2001 })
    expect(totals().size + totals().variant).toBe(2000)
  })

  test('an absurd slot is dropped and does not move the window while good shreds arrive', () => {
    const { admit, totals } = open()
    for (const shred of shreds.slice(0, 100)) admit(shred)
    for (const shred of shreds.slice(100, 200)) {
      for (const slot of [1e9, 1e9 + 1, 5, 1000 + 40])
        expect(admit(withSlot(shred, slot))).toBe(verdicts.drop)
      expect(admit(shred)).not.toBe(verdicts.drop)
    }
    expect(totals()).toMatchObject({ slot: 400, accepted: 200, windowMoves: 1 })
  })

  test('garbage that arrives first does not keep the window', () => {
    const { admit } = open()
    admit(withSlot(shreds[0]!, 123_456_789))
    const taken = shreds.filter((shred) => admit(shred) !== verdicts.drop)
    expect(taken.length).toBeGreaterThan(shreds.length - 8)
  })

  test('after two seconds of silence a few agreeing shreds move the window', () => {
    const { admit, totals } = open()
    for (const shred of shreds) admit(shred)
    const far = makeShreds({ slots: 1, sets: 1, firstSlot: 900_000 })
    expect(far.every((shred) => admit(shred, { nowMs: 2000 }) === verdicts.drop)).toBe(true)
    const taken = far.filter((shred) => admit(shred, { nowMs: 4000 }) !== verdicts.drop)
    expect(taken.length).toBeGreaterThan(far.length - 8)
    expect(totals().windowMoves).toBe(2)
  })

  test('the dedup table survives a restart of the worker', () => {
    const window = new SharedArrayBuffer(windowBytes)
    const first = open({ window })
    for (const shred of shreds) first.admit(shred)
    const second = open({ window })
    expect(shreds.every((shred) => second.admit(shred) === verdicts.drop)).toBe(true)
  })

  test('measures which source is first and the lag of the others', () => {
    const { admit, stats } = open()
    for (const shred of shreds) admit(shred, { source: 2, nowMs: 1000 })
    for (const shred of shreds) admit(shred, { source: 3, nowMs: 1004 })
    const late = stats.sources.row(3)
    expect(stats.sources.row(2)).toMatchObject({ first: shreds.length, duplicates: 0 })
    expect(late).toMatchObject({ first: 0, duplicates: shreds.length })
    expect(late.lagSamples).toBe(shreds.length / 16)
    expect(late.lagMs / late.lagSamples).toBe(4)
  })

  test('with verify, a forged shred is dropped and does not block the real one', () => {
    const { admit, totals } = open({ leaders: [testLeader] })
    for (const shred of shreds.slice(0, 64)) {
      const forged = Uint8Array.from(shred)
      forged[200]! ^= 1
      expect(admit(forged)).toBe(verdicts.drop)
      expect(admit(shred)).not.toBe(verdicts.drop)
    }
    expect(totals()).toMatchObject({ signature: 64, accepted: 64 })
  })

  test('with recover, half of a set is enough to rebuild the other half', () => {
    const { admit, admission, totals, turns } = open({ recover: true })
    const arrived = shuffled(shreds.slice(0, 64), 9)
    for (const shred of arrived.slice(0, 32)) admit(shred)
    expect(admission.isBusy).toBe(true)
    const rebuilt = turns().flat()
    expect(asTexts(rebuilt)).toEqual(asTexts(arrived.slice(32)))
    expect(arrived.slice(32).every((shred) => admit(shred) === verdicts.drop)).toBe(true)
    expect(totals()).toMatchObject({ accepted: 32, rebuilt: 32, duplicate: 32 })
  })

  test('with recover, one step rebuilds at most one lost shred', () => {
    const { admit, turns } = open({ recover: true })
    // All data is lost: 32 shards by the inverse matrix, then the tree of hashes.
    for (const shred of shreds.slice(0, 64).filter((shred) => shred.length === codeShredBytes))
      expect(admit(shred)).toBe(verdicts.code)
    const given = turns()
    expect(given.length).toBeGreaterThan(32)
    expect(given.filter((some) => some.length > 0).map((some) => some.length)).toEqual([32])
    expect(given.at(-1)!.length).toBe(32)
  })

  test('with recover, shreds that arrive while their set is rebuilt are sent once', () => {
    const { admit, admission, turns } = open({ recover: true })
    const arrived = shuffled(shreds.slice(0, 64), 9)
    for (const shred of arrived.slice(0, 32)) admit(shred)
    for (let turn = 0; turn < 10; turn += 1) expect(admission.step(1000)).toEqual([])
    for (const shred of arrived.slice(32, 40)) expect(admit(shred)).not.toBe(verdicts.drop)
    expect(asTexts(turns().flat())).toEqual(asTexts(arrived.slice(40)))
  })

  test('with recover, a set that completes before its turn is not rebuilt', () => {
    const { admit, turns, totals } = open({ recover: true })
    for (const shred of shreds.slice(0, 64)) admit(shred)
    expect(turns()).toEqual([])
    expect(totals()).toMatchObject({ accepted: 64, rebuilt: 0 })
  })

  test('with many leaders, shreds wait until their leader is found, and none is lost', () => {
    const { admit, signatures, turns, totals } = open({ leaders: [...strangers, testLeader] })
    for (const shred of shreds.slice(0, 64)) expect(admit(shred)).toBe(verdicts.drop)
    // A second copy that arrives meanwhile is a duplicate.
    admit(shreds[0]!)
    expect(asTexts(turns().flat())).toEqual(asTexts(shreds.slice(0, 64)))
    expect(signatures!.checks).toBe(strangers.length + 1)
    expect(totals()).toMatchObject({ accepted: 64, duplicate: 1, signature: 0 })
    // The slot's leader is known from now on: no shred waits.
    for (const shred of shreds.slice(64, 128)) expect(admit(shred)).not.toBe(verdicts.drop)
    expect(signatures!.checks).toBe(strangers.length + 2)
  })

  test('with many leaders, waiting shreds are bounded and forged ones are dropped', () => {
    const { admit, admission, turns, totals } = open({ leaders: strangers })
    const many = makeShreds({ slots: 40, sets: 2 })
    for (const shred of many) expect(admit(shred)).toBe(verdicts.drop)
    // 64 of the 80 sets wait; the turn that follows drops the shreds of the others.
    expect(totals().signature).toBe(0)
    admission.step(1000)
    expect(totals().signature).toBe(16 * 64)
    expect(turns().flat()).toEqual([])
    expect(totals()).toMatchObject({ signature: many.length, accepted: 0 })
  })

  test('lost shreds of a slot show in the stats', () => {
    const { admit, stats } = open()
    for (const [index, shred] of shreds.slice(0, 128).entries()) if (index % 10 !== 3) admit(shred)
    const slot = stats.slots.row(1000 % 64)
    expect(slot).toMatchObject({ slot: 1000, dataEnd: 64, isLastKnown: 1 })
    const lost = shreds
      .slice(0, 128)
      .filter((shred, index) => index % 10 === 3 && shred.length === 1203)
    expect(slot.dataEnd - slot.data).toBe(lost.length)
  })
})
