// Unmodified web3.js and kit against a server in front of three others, which stand in front of one
// chain: nothing that a customer does over PubSub is different.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { describePubsubClients } from '../support/pubsub-clients.ts'
import { SolanaNode } from '../support/solana-node.ts'

let chain: SolanaNode
const nodes: SolanaNode[] = []
let front: SolanaNode
beforeAll(async () => {
  chain = await SolanaNode.start('--chain.traffic=20', '--metrics.enabled=false')
  // One after another: each is known to the end before the next may fail.
  while (nodes.length < 3) nodes.push(await SolanaNode.before([chain], '--metrics.enabled=false'))
  front = await SolanaNode.before(nodes)
}, 300_000)
afterAll(async () => {
  for (const node of [front, ...nodes, chain]) await node?.dispose()
}, 120_000)

describePubsubClients(() => ({
  node: front,
  url: front.server.url('websocket'),
  token: front.token,
}))

describe('the meters', () => {
  it('count the notifications and name no node of the chain', async () => {
    const response = await fetch(`${front.server.url('metrics')}/metrics`)
    const text = await response.text()
    expect(text).toMatch(/^sluice_websocket_notifications_total\{topic="slot"\} [1-9]\d*$/m)
    expect(text).toMatch(/^sluice_upstream_geyser_up\{set="default"\} 1$/m)
    for (const { token } of [...nodes, chain]) expect(text).not.toContain(token)
  })
})
