// Choice of the core for a worker that polls.
import { describe, expect, test } from 'vitest'
import { coresOf, lastCore, pollCoreOf } from '../../../../src/products/shredstream/core.ts'

describe('the core of io: poll', () => {
  test('is the last one that the process may use, unless one is configured', () => {
    expect(pollCoreOf(lastCore, [0, 1, 5])).toBe(5)
    expect(pollCoreOf(1, [0, 1, 5])).toBe(1)
  })

  test('is refused where the process may not use it, with those that it may use', () => {
    expect(() => pollCoreOf(4, [0, 1, 5])).toThrow(
      'shredstream.core: 4 is not a core that this process may use (0, 1, 5)',
    )
  })

  test('is refused where nothing else would have a core left', () => {
    expect(() => pollCoreOf(lastCore, [3])).toThrow('may use only one')
    expect(() => pollCoreOf(lastCore, [])).toThrow('needs Linux')
  })

  test('lists of the kernel are read with ranges and single cores', () => {
    expect(coresOf('0-2,8,10-11')).toEqual([0, 1, 2, 8, 10, 11])
    expect(coresOf('3')).toEqual([3])
    expect(coresOf('')).toEqual([])
  })
})
