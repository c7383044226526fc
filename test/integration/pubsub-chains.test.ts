// Whose subscriptions read which chain, and what happens to them while that chain is down.
import { once } from 'node:events'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { publishUpdate } from '../../src/streams/geyser/hub.ts'
import { Bundle } from '../testkit/bundle.ts'
import { idleChain } from '../testkit/pubsub-chain.ts'
import { Client } from '../testkit/subscription-stage.ts'
import { SyntheticSolana } from '../testkit/synthetic-solana.ts'

let bundle: Bundle
let port: number
let isUp = true
const main = idleChain()
const own = idleChain({ isUp: () => isUp })

beforeEach(async () => {
  isUp = true
  bundle = new Bundle()
  const chainOf = ({ upstream }: { upstream: string | null }) => (upstream === null ? main : own)
  port = (await bundle.openWebsocket({ chainOf })).port
})
afterEach(() => bundle.dispose())

async function connect(upstream: string | null): Promise<Client> {
  const bound = { products: ['bundle', 'dedicated-node'], upstream: 'acme' }
  const { token } = bundle.issue(upstream === null ? {} : bound)
  const socket = new WebSocket(`ws://127.0.0.1:${port}`, { headers: { 'x-token': token } })
  await once(socket, 'open')
  return new Client(socket)
}

function step(chain: typeof main, synthetic: SyntheticSolana): void {
  for (const update of synthetic.next()) publishUpdate(chain.hub, update)
}

describe('a dedicated subscription', () => {
  it('is the only one that is notified of its chain', async () => {
    const [everybody, bound] = [await connect(null), await connect('acme')]
    const ids = [await everybody.subscribe('slot'), await bound.subscribe('slot')] as const
    expect(ids[0]).not.toBe(ids[1])
    step(main, new SyntheticSolana({ firstSlot: 10 }))
    step(own, new SyntheticSolana({ firstSlot: 5_000 }))
    expect((await everybody.upTo(ids[0], 1)).map(({ slot }) => slot)).toEqual([10])
    expect((await bound.upTo(ids[1], 1)).map(({ slot }) => slot)).toEqual([5_000])
    expect([everybody.notifications.length, bound.notifications.length]).toEqual([1, 1])
  })
})

describe('a chain that is down', () => {
  it('refuses new subscriptions with -32005, and existing ones resume after it', async () => {
    const synthetic = new SyntheticSolana({ firstSlot: 100 })
    const [everybody, bound] = [await connect(null), await connect('acme')]
    const id = await bound.subscribe('slot')
    isUp = false
    expect(await bound.ask('rootSubscribe')).toMatchObject({
      error: { code: -32005, message: 'Node is unhealthy', data: { numSlotsBehind: null } },
    })
    expect(await everybody.ask('rootSubscribe')).toHaveProperty('result')
    isUp = true
    step(own, synthetic)
    expect(await bound.upTo(id, 1)).toHaveLength(1)
    expect(await bound.ask('rootSubscribe')).toHaveProperty('result')
  })
})
