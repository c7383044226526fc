// The shapes of every Solana method's answer, held by golden files: inside v1 fields are only
import { SolanaNode } from '../support/solana-node.ts'
import { describeRpcShapes } from '../support/solana-rpc-golden.ts'

describeRpcShapes(() => SolanaNode.start('--chain.traffic=0'))
