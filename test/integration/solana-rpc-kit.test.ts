// Unmodified @solana/kit against the running server.
import { SolanaNode } from '../testkit/solana-node.ts'
import { describeKit } from '../testkit/solana-rpc-kit.ts'

describeKit(() => SolanaNode.start('--chain.traffic=20'))
