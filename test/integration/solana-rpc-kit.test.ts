// Unmodified @solana/kit against the running server.
import { SolanaNode } from '../support/solana-node.ts'
import { describeKit } from '../support/solana-rpc-kit.ts'

describeKit(() => SolanaNode.start('--chain.traffic=20'))
