import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LruMap } from '../../../src/base/lru-map.ts'

const step = fc.tuple(
  fc.constantFrom('get', 'peek', 'set', 'evict', 'clear'),
  fc.integer({ min: 0, max: 7 }),
)

describe('LruMap', () => {
  it('does what a Map does whose key is deleted and set at each read', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const ours = new LruMap<number, number>()
        const plain = new Map<number, number>()
        for (const [at, [name, key]] of steps.entries()) {
          const known = plain.get(key)
          if (name === 'set') {
            ours.set(key, at)
            plain.delete(key)
            plain.set(key, at)
          } else if (name === 'evict') {
            const oldest = plain.keys().next().value
            expect(ours.evict()).toBe(oldest === undefined ? undefined : plain.get(oldest))
            if (oldest !== undefined) plain.delete(oldest)
          } else if (name === 'clear') {
            ours.clear()
            plain.clear()
          } else {
            expect(name === 'get' ? ours.get(key) : ours.peek(key)).toBe(known)
            if (name === 'get' && known !== undefined) {
              plain.delete(key)
              plain.set(key, known)
            }
          }
          expect(ours.size).toBe(plain.size)
        }
        const left = Array.from({ length: ours.size }, () => ours.evict())
        expect(left).toEqual([...plain.values()])
      }),
    )
  })
})
