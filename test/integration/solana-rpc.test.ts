// What the rpc endpoint says when something is wrong: a validator's codes, words and data. And the
// shapes of every Solana method's answer, held by golden files: inside v1 fields are only added.
import { afterAll, beforeAll } from 'vitest'
import { SolanaNode } from '../testkit/solana-node.ts'
import { describeRpcErrors } from '../testkit/solana-rpc-errors.ts'
import { describeRpcShapes } from '../testkit/solana-rpc-golden.ts'

let node: SolanaNode
beforeAll(async () => {
  node = await SolanaNode.start('--chain.traffic=0')
})
afterAll(() => node?.dispose())

describeRpcErrors(async () => node.lent())
describeRpcShapes(async () => node.lent())
