// Unmodified @solana/kit and @solana/web3.js against the running server.
import { afterAll, beforeAll } from 'vitest'
import { SolanaNode } from '../testkit/solana-node.ts'
import { describeKit } from '../testkit/solana-rpc-kit.ts'
import { describeWeb3 } from '../testkit/solana-rpc-web3.ts'

let node: SolanaNode
beforeAll(async () => {
  node = await SolanaNode.start('--chain.traffic=20')
})
afterAll(() => node?.dispose())

describeKit(async () => node.lent())
describeWeb3(async () => node.lent())
