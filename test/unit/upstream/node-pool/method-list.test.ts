import { expect, test } from 'vitest'
import { servesMethod } from '../../../../src/upstream/node-pool/upstream-node.ts'

test('without lists every method is served', () => {
  expect(servesMethod({ allow: [], deny: [] }, 'anything')).toBe(true)
})

test('an allow list serves what it names, a name may end in *', () => {
  const list = { allow: ['sendTransaction', 'getBlock*'], deny: [] }
  expect(servesMethod(list, 'sendTransaction')).toBe(true)
  expect(servesMethod(list, 'getBlockTime')).toBe(true)
  expect(servesMethod(list, 'getBlock')).toBe(true)
  expect(servesMethod(list, 'getSlot')).toBe(false)
  expect(servesMethod(list, 'sendTransactions')).toBe(false)
})

test('a deny list wins', () => {
  const list = { allow: ['get*'], deny: ['getProgramAccounts'] }
  expect(servesMethod(list, 'getProgramAccounts')).toBe(false)
  expect(servesMethod(list, 'getSlot')).toBe(true)
  expect(servesMethod({ allow: [], deny: ['*'] }, 'getSlot')).toBe(false)
})
