// Unmodified web3.js and kit, subscribed to the running server.
import { afterAll, beforeAll } from 'vitest'
import { describePubsubClients } from '../testkit/pubsub-clients.ts'
import { SolanaNode } from '../testkit/solana-node.ts'

let node: SolanaNode
beforeAll(async () => {
  node = await SolanaNode.start('--chain.traffic=20')
})
afterAll(() => node?.dispose())

describePubsubClients(() => ({ node, url: node.server.url('websocket'), token: node.token }))
