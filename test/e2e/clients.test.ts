// Unmodified spl-token, Anchor and web3.js, through a devnode and through a gateway before it.
import { afterAll, beforeAll, describe } from 'vitest'
import { type ClientPlace, describeClientFlows } from '../testkit/client-flows.ts'
import { type Devnode, startDevnode } from '../testkit/devnode.ts'
import { SolanaNode } from '../testkit/solana-node.ts'

let devnode: Devnode
let gateway: SolanaNode
beforeAll(async () => {
  // Clients keep a finalized blockhash for 30 s, and one is valid for 118 blocks: longer.
  devnode = await startDevnode({ slotMs: 270 })
  const flags = ['--websocket.queryToken=true', '--metrics.enabled=false']
  gateway = await SolanaNode.before([await SolanaNode.of(devnode)], ...flags)
})
afterAll(async () => {
  await gateway?.dispose()
  await devnode?.dispose()
})

// Both at once: they mostly wait for slots.
describe.concurrent('the devnode', () => {
  describeClientFlows(() => ({ http: devnode.url('rpc'), ws: devnode.url('websocket') }))
})

describe.concurrent('the gateway, with the token in the URL', () => {
  const withToken = (name: string) => `${gateway.server.url(name)}/?api-key=${gateway.token}`
  describeClientFlows((): ClientPlace => ({ http: withToken('rpc'), ws: withToken('websocket') }))
})
