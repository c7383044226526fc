import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { assert, Fault, isBug } from '../../../src/base/errors.ts'

function thrownBy(action: () => unknown): unknown {
  try {
    action()
  } catch (error) {
    return error
  }
  throw new Error('nothing was thrown')
}

test('a broken invariant and a programming error are bugs, an external failure is not', () => {
  expect(isBug(thrownBy(() => assert(false, 'x')))).toBe(true)
  expect(isBug(thrownBy(() => (undefined as unknown as string).length))).toBe(true)
  expect(isBug(thrownBy(() => readFileSync('/absent')))).toBe(false)
  expect(isBug(new Fault('disk', 'full'))).toBe(false)
})
