import { expect, it } from 'vitest'
import { floatText } from '../../../../src/chain/solana/json-parsed/layout.ts'

it.each([
  [1, '1'],
  [-0, '-0'],
  [1.005, '1.005'],
  [1e21, '1000000000000000000000'],
  [-1.5e22, '-15000000000000000000000'],
  [1.25e-7, '0.000000125'],
  [-1e-7, '-0.0000001'],
  [Number.POSITIVE_INFINITY, 'inf'],
  [Number.NEGATIVE_INFINITY, '-inf'],
  [Number.NaN, 'NaN'],
])('writes the float %s as %s, never with an exponent', (value, text) => {
  expect(floatText(value)).toBe(text)
})
