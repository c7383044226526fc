import { describe, expect, test } from 'vitest'
import { SLAB_BYTES, Slab } from '../../../../src/upstream/proxy/slabs.ts'

describe('a slab of the proxy', () => {
  test('returns its buffer to the pool once', () => {
    const first = new Slab(SLAB_BYTES)
    first.release()
    const second = new Slab(SLAB_BYTES)
    expect(second.bytes === first.bytes).toBe(true)
    expect(() => first.release()).toThrow('invariant broken')
    // Were it in the pool again, this answer would be written over the second one.
    expect(new Slab(SLAB_BYTES).bytes === second.bytes).toBe(false)
    second.release()
  })

  test('throws on a second release before the buffer is used again, too', () => {
    const slab = new Slab(SLAB_BYTES)
    slab.release()
    expect(() => slab.release()).toThrow('invariant broken')
    const next = new Slab(SLAB_BYTES)
    expect(next.bytes === new Slab(SLAB_BYTES).bytes).toBe(false)
  })

  test('of a short answer has memory of its own', () => {
    const slab = new Slab(100)
    expect(slab.bytes.length).toBe(100)
    slab.release()
    expect(() => slab.release()).toThrow('invariant broken')
  })
})
