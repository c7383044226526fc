// What the rpc endpoint says when something is wrong: a validator's codes, words and data.
import { SolanaNode } from '../testkit/solana-node.ts'
import { describeRpcErrors } from '../testkit/solana-rpc-errors.ts'

describeRpcErrors(() => SolanaNode.start('--chain.traffic=0'))
