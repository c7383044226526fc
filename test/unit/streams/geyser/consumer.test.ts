// The bounds of a consumer: places that can be committed, and names in what is stored.
import { expect, it } from 'vitest'
import { Consumer } from '../../../../src/streams/geyser/consumer.ts'
import {
  decodePosition,
  encodePosition,
  type Position,
} from '../../../../src/streams/geyser/position.ts'

const at = (floor: number): Position => ({ commitment: 0, floor, slots: [], parts: [] })

it('the newest 256 places of a stream can be committed, and forget those before them', async () => {
  const stored: number[] = []
  const commit = async (position: () => string) =>
    void stored.push(decodePosition(position())!.floor)
  const consumer = new Consumer({ position: null, commit, close() {} })
  for (let id = 1; id <= 300; id++) consumer.mark(id, at(id))
  expect(consumer.commitMark(44)).toBeNull()
  await consumer.commitMark(45)
  await consumer.commitMark(300)
  expect(consumer.commitMark(299)).toBeNull()
  expect(stored).toEqual([45, 300])
})

it('the part of a slot with more than 16,384 items is not stored: it is sent again', () => {
  const names = Array.from({ length: 16_385 }, (_, index) => String(index).padStart(11, '0'))
  const part = (slot: number, count: number) => ({ slot, names, count })
  const text = encodePosition({ ...at(7), parts: [part(7, 16_384), part(8, 16_385)] })
  const { parts } = decodePosition(text)!
  expect(parts.map(({ slot, count }) => [slot, count])).toEqual([[7, 16_384]])
  expect(parts[0]!.names).toEqual(names.slice(0, 16_384))
})

it('a slot that is dropped is in no later position, and has been dropped once that is stored', async () => {
  const stored: string[] = []
  const waiting: (() => void)[] = []
  const commit = (position: () => string) => {
    stored.push(position())
    return new Promise<void>((resolve) => waiting.push(resolve))
  }
  const slot = (number: number) => {
    return { slot: number, parent: null, statuses: 0, retractions: 0, blockhash: '', bank: 0 }
  }
  const part = { slot: 8, names: ['a'.repeat(11)], count: 1 }
  const position = { ...at(6), slots: [slot(7), slot(8)], parts: [part] }
  const consumer = new Consumer({ position: encodePosition(position), commit, close() {} })
  consumer.mark(1, position)
  let isDropped = false
  const dropping = consumer.drop(8).then(() => {
    isDropped = true
  })
  void consumer.commitMark(1)
  await Promise.resolve()
  expect(isDropped).toBe(false)
  for (const text of stored)
    expect(decodePosition(text)).toEqual({ ...at(6), slots: [slot(7)], parts: [] })
  expect(stored).toHaveLength(2)
  waiting[0]!()
  await dropping
})
