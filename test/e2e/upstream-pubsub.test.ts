// Unmodified web3.js and kit against a server in front of another one, which is in front of a
// devnode: nothing that a customer does over PubSub is different.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startDevnode } from '../testkit/devnode.ts'
import { describePubsubClients } from '../testkit/pubsub-clients.ts'
import { SolanaNode } from '../testkit/solana-node.ts'

let chain: SolanaNode
let node: SolanaNode
let front: SolanaNode
beforeAll(async () => {
  chain = await SolanaNode.of(await startDevnode({ flags: ['--traffic=20'] }))
  node = await SolanaNode.before([chain])
  front = await SolanaNode.before([node], '--metrics.enabled=true')
})
afterAll(async () => {
  for (const one of [front, node, chain]) await one?.dispose()
})

describePubsubClients(() => ({
  node: front,
  url: front.server.url('websocket'),
  token: front.token,
}))

describe('the meters', () => {
  it('count the notifications and contain no token of a node', async () => {
    const response = await fetch(`${front.server.url('metrics')}/metrics`)
    const text = await response.text()
    expect(text).toMatch(/^sluice_websocket_notifications_total\{topic="slot"\} [1-9]\d*$/m)
    expect(text).toMatch(/^sluice_upstream_geyser_up\{set="default"\} 1$/m)
    expect(text).not.toContain(node.token)
  })
})
