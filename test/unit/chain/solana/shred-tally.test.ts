// Tally of received shreds: losses per slot, duplicates, noise.
import { expect, test } from 'vitest'
import { ShredTally } from '../../../../src/chain/solana/shred.ts'
import { makeShreds, randomBytes } from '../../../testkit/shreds.ts'

const perSlot = 128
const shreds = makeShreds({ slots: 4, sets: 2 })

test('a complete slot is reported once, with nothing missing', () => {
  const tally = new ShredTally()
  for (const [place, shred] of shreds.slice(0, perSlot).entries()) tally.add(shred, 10 + place)
  expect(tally.takeFinished()).toMatchObject([
    { slot: 1000, data: 64, code: 64, dataEnd: 64, duplicates: 0, firstMs: 10, lastMs: 137 },
  ])
  expect(tally.takeFinished()).toEqual([])
})

test('losses show when later slots have begun', () => {
  const tally = new ShredTally()
  for (const [place, shred] of shreds.entries()) if (place % 16 !== 5) tally.add(shred, 1)
  const [first] = tally.takeFinished()
  expect(first).toMatchObject({ slot: 1000, dataEnd: 64, data: 60, isLastKnown: true })
})

test('duplicates and noise are counted apart', () => {
  const tally = new ShredTally()
  for (const shred of [...shreds, ...shreds]) expect(tally.add(shred, 1)).toBe(true)
  for (let length = 0; length < 100; length += 1)
    expect(tally.add(randomBytes(length * 20, length + 1), 1)).toBe(false)
  expect(tally).toMatchObject({ shreds: shreds.length, duplicates: shreds.length, flawed: 100 })
})

test('memory is bounded: shreds of slots long gone count as late', () => {
  const tally = new ShredTally()
  const [shred] = shreds
  for (let slot = 0; slot < 100; slot += 1) {
    const copy = Uint8Array.from(shred!)
    new DataView(copy.buffer).setBigUint64(65, BigInt(5000 + slot), true)
    tally.add(copy, slot)
  }
  tally.add(shred!, 100)
  expect(tally).toMatchObject({ shreds: 100, late: 1 })
})
