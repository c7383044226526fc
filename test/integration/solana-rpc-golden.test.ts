// The shapes of every Solana method's answer, held by golden files: inside v1 fields are only
import { SolanaNode } from '../testkit/solana-node.ts'
import { describeRpcShapes } from '../testkit/solana-rpc-golden.ts'

describeRpcShapes(() => SolanaNode.start('--chain.traffic=0'))
