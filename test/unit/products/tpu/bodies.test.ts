import fc from 'fast-check'
import { expect, it } from 'vitest'
import { decodeText } from '../../../../src/products/tpu/methods.ts'

/** Of the alphabet, and those that Node skips or takes although they are not of it. */
const characters = fc.constantFrom(...'AQgw/+zZ09', ...'=-_! \nä')
const text = fc.string({ unit: characters, maxLength: 12 })

it('takes as base64 exactly the texts that encoding their bytes gives back', () => {
  fc.assert(
    fc.property(text, fc.constantFrom('', '=', '=='), (start, end) => {
      const given = `${start}${end}`
      const bytes = Buffer.from(given, 'base64')
      const decoded = decodeText(given, 'base64')
      expect(decoded.ok).toBe(bytes.toString('base64') === given)
      if (decoded.ok) expect(decoded.value).toEqual(bytes)
    }),
    { numRuns: 20_000 },
  )
})
