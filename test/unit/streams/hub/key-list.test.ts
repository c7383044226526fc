import { describe, expect, it } from 'vitest'
import { KeyList, settledSlots } from '../../../../src/streams/hub/key-list.ts'
import { randomOf } from '../../../testkit/synthetic-solana.ts'

const none = new Set<string>()
const all = 'abcdefghij'.split('')

describe('a list of keys', () => {
  it.each([1, 2, 3])('has at each slot the keys of the last change before it, seed %i', (seed) => {
    const random = randomOf(seed)
    const some = () => new Set(all.filter(() => random() < 0.2))
    const list = new KeyList(new Set(['a', 'b', 'c']))
    // The keys from each slot on, whole and one by one.
    const model = new Map<number, Set<string>>([[0, new Set(['a', 'b', 'c'])]])
    const indexed = new Set(['a', 'b', 'c'])
    let newest = 1
    for (let round = 0; round < 300; round++) {
      if (random() < 0.5) {
        const delta = { add: some(), remove: some() }
        const after = new Set([...model.values()].at(-1))
        for (const key of delta.remove) after.delete(key)
        for (const key of delta.add) after.add(key)
        expect(list.sizeAfter(delta)).toBe(after.size)
        for (const key of list.change(delta, newest + 1)) {
          expect(indexed.has(key)).toBe(false)
          indexed.add(key)
        }
        model.set(newest + 1, after)
        expect(list.size).toBe(after.size)
      } else {
        newest += Math.floor(random() * 40)
        for (const key of list.settle(newest)) indexed.delete(key)
      }
      const oldest = Math.max(0, newest - settledSlots)
      for (let slot = oldest; slot <= newest + 1; slot += 1 + Math.floor(random() * 20)) {
        const from = [...model.keys()].filter((at) => at <= slot).at(-1)!
        const expected = model.get(from)!
        expect(all.filter((key) => list.has(key, slot))).toEqual(
          all.filter((key) => expected.has(key)),
        )
      }
      expect([...list].toSorted()).toEqual([...indexed].toSorted())
    }
    for (const key of list.settle(Number.POSITIVE_INFINITY)) indexed.delete(key)
    expect(list.changedKeys).toBe(0)
    expect([...indexed].toSorted()).toEqual([...[...model.values()].at(-1)!].toSorted())
  })

  it('that has lost all keys stays a condition, and one that never had any is none', () => {
    expect(new KeyList(new Set()).isCondition).toBe(false)
    const list = new KeyList(new Set(['a']))
    list.change({ add: none, remove: new Set(['a']) }, 5)
    list.settle(Number.POSITIVE_INFINITY)
    expect([...list]).toEqual([])
    expect(list.isCondition).toBe(true)
    expect(list.has('a', 9)).toBe(false)
  })

  it('counts a key that comes and goes before the same slot as unchanged', () => {
    const list = new KeyList(new Set(['a']))
    list.change({ add: new Set(['b']), remove: new Set(['a']) }, 5)
    list.change({ add: new Set(['a']), remove: new Set(['b']) }, 5)
    for (const slot of [4, 5, 6]) {
      expect(list.has('a', slot)).toBe(true)
      expect(list.has('b', slot)).toBe(false)
    }
    expect(list.settle(5 + settledSlots)).toEqual(['b'])
    expect([...list]).toEqual(['a'])
  })
})
