// Unmodified @solana/web3.js 1.x against the running server.
import { SolanaNode } from '../testkit/solana-node.ts'
import { describeWeb3 } from '../testkit/solana-rpc-web3.ts'

describeWeb3(() => SolanaNode.start('--chain.traffic=20'))
