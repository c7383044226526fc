import { expect, test } from 'vitest'
import { MethodList } from '../../../../src/upstream/node-pool/upstream-node.ts'

test('without lists every method is served', () => {
  expect(new MethodList({ allow: [], deny: [] }).has('anything')).toBe(true)
})

test('an allow list serves what it names, a name may end in *', () => {
  const list = new MethodList({ allow: ['sendTransaction', 'getBlock*'], deny: [] })
  expect(list.has('sendTransaction')).toBe(true)
  expect(list.has('getBlockTime')).toBe(true)
  expect(list.has('getBlock')).toBe(true)
  expect(list.has('getSlot')).toBe(false)
  expect(list.has('sendTransactions')).toBe(false)
})

test('a deny list wins', () => {
  const list = new MethodList({ allow: ['get*'], deny: ['getProgramAccounts'] })
  expect(list.has('getProgramAccounts')).toBe(false)
  expect(list.has('getSlot')).toBe(true)
  expect(new MethodList({ allow: [], deny: ['*'] }).has('getSlot')).toBe(false)
})
