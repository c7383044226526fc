// Signature checks needed to distinguish a leader's set from a forged one.
import { expect, test } from 'vitest'
import {
  type LeaderSearch,
  LeaderSignatures,
} from '../../../../src/chain/solana/shred-signature.ts'
import { makeShreds, publicKeyOfSeed, testLeader } from '../../../testkit/shreds.ts'

/** Keys that may be in a validator list, and are not the signer's. */
const strangers = Array.from({ length: 1000 }, (_, place) =>
  publicKeyOfSeed(
    new Uint8Array(32)
      .fill(7)
      .fill(place & 255, 0, 1)
      .fill(place >> 8, 1, 2),
  ),
)
/** Checks that one turn of a search may make. */
const checksPerTurn = 4

/** First shreds of `sets` sets of one slot, each the only one of its root and signature. */
const firstShreds = (slots: number, sets: number) =>
  makeShreds({ slots, sets }).filter((_, place) => place % 64 === 0)

/** The same shred in as many forgeries: another signature each. */
const forgeriesOf = (shred: Uint8Array, count: number) =>
  Array.from({ length: count }, (_, place) => {
    const forged = Uint8Array.from(shred)
    new DataView(forged.buffer).setUint32(0, place)
    return forged
  })

test('with one key every set, forged or not, costs one check', () => {
  const leaders = new LeaderSignatures([testLeader])
  const sets = firstShreds(4, 2)
  expect(sets.map((shred) => leaders.check(shred))).toEqual(sets.map(() => true))
  expect(leaders.checks).toBe(8)
  for (const forged of forgeriesOf(sets[0]!, 100)) expect(leaders.check(forged)).toBe(false)
  expect(leaders.checks).toBe(108)
  expect(leaders.isBusy).toBe(false)
})

test('once a slot’s leader is known a forged set of it costs one check, whatever the list', () => {
  const leaders = new LeaderSignatures([testLeader, ...strangers])
  const [shred] = firstShreds(1, 1)
  expect(leaders.check(shred!)).toBe(true)
  const before = leaders.checks
  for (const forged of forgeriesOf(shred!, 100)) expect(leaders.check(forged)).toBe(false)
  expect(leaders.checks - before).toBe(100)
})

test('before that, a turn makes few checks, and each set is searched once through the list', () => {
  const leaders = new LeaderSignatures([...strangers, testLeader])
  const [real] = firstShreds(1, 1)
  const search = leaders.check(real!)
  expect(search).toMatchObject({ slot: 1000, isSigned: null })
  // A second shred of the real set puts it before the forged ones, however many there are.
  expect(leaders.check(real!)).toBe(search)
  for (const forged of forgeriesOf(real!, 500)) leaders.check(forged)
  // However many sets come in one turn, the keys are tried for none of them beyond its budget.
  expect(leaders.checks).toBe(checksPerTurn)
  // Most of the forged sets were evicted by the next ones, unsearched.
  const first = leaders.search()
  expect(first.length).toBe(500 - 63)
  expect(first.every(({ isSigned }) => isSigned === false)).toBe(true)
  let ended: readonly LeaderSearch[] = []
  for (let turn = 0; turn < 1000 && ended.length === 0; turn += 1) {
    const before = leaders.checks
    ended = leaders.search()
    expect(leaders.checks - before).toBeLessThanOrEqual(checksPerTurn)
  }
  expect(ended).toEqual([search])
  expect(ended[0]!.isSigned).toBe(true)
  expect(leaders.checks).toBe(strangers.length + 1)
  // The forged sets that wait are rejected by one check each.
  const before = leaders.checks
  let forged = 0
  for (let turn = 0; turn < 1000 && leaders.isBusy; turn += 1)
    forged += leaders.search().filter(({ isSigned }) => isSigned === false).length
  expect(forged).toBe(63)
  expect(leaders.checks - before).toBe(63)
})

test('an unknown key costs the whole list once, and does not change the list', () => {
  const leaders = new LeaderSignatures(strangers)
  const [shred] = firstShreds(1, 1)
  leaders.check(shred!)
  for (let turn = 0; turn < 1000 && leaders.isBusy; turn += 1) leaders.search()
  expect(leaders.checks).toBe(strangers.length)
  expect(leaders.check(shred!)).toBe(false)
  expect(leaders.checks).toBe(strangers.length)
})
