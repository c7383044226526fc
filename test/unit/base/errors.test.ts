// Tells faults of the world from bugs.
import { expect, test } from 'vitest'
import { Fault, isFault } from '../../../src/base/errors.ts'

const withField = (field: object) => Object.assign(new Error('it failed'), field)

test.each([
  ['a Fault', new Fault('disk', 'it is full')],
  ['an error of the system', withField({ code: 'ENOSPC' })],
  ['an error of LMDB', withField({ code: -30_792 })],
  ['a commit of LMDB that failed', withField({ commitError: Promise.resolve() })],
])('takes %s for a fault', (_, error) => {
  expect(isFault(error)).toBe(true)
})

test.each([
  ['an error of ours', new Error('it failed')],
  ['an error of Node about its use', withField({ code: 'ERR_INVALID_ARG_TYPE' })],
  ['no error at all', 'ENOSPC'],
])('takes %s for a bug', (_, error) => {
  expect(isFault(error)).toBe(false)
})
