// Unmodified web3.js and kit, subscribed through the relay to a node behind it.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { describePubsubClients } from '../support/pubsub-clients.ts'
import { nodeOf, RelayStage } from '../support/relay-stage.ts'
import { SolanaNode } from '../support/solana-node.ts'
import { until } from '../support/until.ts'

let node: SolanaNode
let stage: RelayStage
let token: string
beforeAll(async () => {
  node = await SolanaNode.start('--chain.traffic=20')
  stage = await RelayStage.start({ default: [nodeOf(node)] })
  token = stage.bundle.issue().token
})
afterAll(async () => {
  await stage?.stop()
  await node?.dispose()
})

describePubsubClients(() => ({ node, url: stage.url, token }))

describe('after the clients', () => {
  it('leaves nothing subscribed at the node', async () => {
    const client = await stage.connect()
    expect(await client.subscribe('slot')).toBeGreaterThan(0)
    client.socket.terminate()
    await until(() => stage.count() === 0, 'the node to be rid of everything')
  })
})
