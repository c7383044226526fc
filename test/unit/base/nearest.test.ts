import { expect, test } from 'vitest'
import { editDistance, nearest } from '../../../src/base/nearest.ts'

test('counts insertions, deletions, replacements and swaps', () => {
  expect(editDistance('', 'abc')).toBe(3)
  expect(editDistance('port', 'prot')).toBe(1)
  expect(editDistance('port', 'ports')).toBe(1)
  expect(editDistance('port', 'part')).toBe(1)
  expect(editDistance('kitten', 'sitting')).toBe(3)
})

test('returns the nearest candidate, and null without candidates', () => {
  expect(nearest('rpc.prot', ['rpc.host', 'rpc.port'])).toBe('rpc.port')
  expect(nearest('x', [])).toBe(null)
})
