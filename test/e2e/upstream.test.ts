// Unmodified web3.js and kit, and every method's shape and errors, against a server in front of
// three addresses of a devnode: nothing that a customer does over JSON-RPC is different.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { startDevnode } from '../testkit/devnode.ts'
import { type NodeAddress, SolanaNode } from '../testkit/solana-node.ts'
import { describeRpcErrors } from '../testkit/solana-rpc-errors.ts'
import { describeRpcShapes } from '../testkit/solana-rpc-golden.ts'
import { describeKit } from '../testkit/solana-rpc-kit.ts'
import { describeWeb3 } from '../testkit/solana-rpc-web3.ts'
import { TcpCut } from '../testkit/tcp-cut.ts'
import { until } from '../testkit/until.ts'

// One chain behind three addresses, on which only the test does something: the shapes are those of it.
let chain: SolanaNode
let front: SolanaNode
/** A devnode takes any. */
const nodeToken = 'token-of-the-node'
const relays: Record<'rpc' | 'grpc', TcpCut[]> = { rpc: [], grpc: [] }

async function relayed(door: 'rpc' | 'grpc'): Promise<string> {
  const relay = await TcpCut.open(new URL(chain.server.url(door)).host)
  relays[door].push(relay)
  return `http://${relay.target}`
}

beforeAll(async () => {
  chain = await SolanaNode.of(await startDevnode())
  const nodes: NodeAddress[] = []
  for (let number = 1; number <= 3; number++) {
    const [url, grpc] = [await relayed('rpc'), await relayed('grpc')]
    nodes.push({ url, token: nodeToken, server: { url: () => grpc } })
  }
  front = await SolanaNode.before(
    nodes,
    '--metrics.generator.tps=50',
    '--websocket.queryToken=true',
  )
})
afterAll(async () => {
  for (const node of [front, chain]) await node?.dispose()
  for (const relay of [...relays.rpc, ...relays.grpc]) relay.close()
})

it('counts what the proxy does, and names no node by its address', async () => {
  await front.call('getGenesisHash')
  await front.call('getGenesisHash')
  const text = await (await fetch(`${front.server.url('metrics')}/metrics`)).text()
  expect(text).toMatch(/^sluice_upstream_cache_hits_total 1$/m)
  expect(text).toMatch(/^sluice_upstream_failovers_total \d+$/m)
  const addresses = [...relays.rpc, ...relays.grpc].map(({ target }) => target)
  for (const secret of [nodeToken, ...addresses]) {
    expect(text).not.toContain(secret)
    expect(front.server.stderr()).not.toContain(secret)
  }
})

describe('errors', () => describeRpcErrors(async () => front.lent()))
describe('shapes', () => describeRpcShapes(async () => front.lent()))
describe('kit', () => describeKit(async () => front.lent()))
describe('web3.js', () => describeWeb3(async () => front.lent()))

// The clients: see pubsub-upstream.test.ts.
describe('PubSub', () => {
  it('counts the notifications, and its meters contain no token of a node', async () => {
    const socket = new WebSocket(`${front.server.url('websocket')}/?api-key=${front.token}`)
    socket.once('open', () => socket.send('{"jsonrpc":"2.0","id":1,"method":"slotSubscribe"}'))
    let isNotified = false
    socket.on('message', (text) => (isNotified ||= String(text).includes('slotNotification')))
    await until(() => isNotified, 'a notification')
    socket.terminate()
    const text = await (await fetch(`${front.server.url('metrics')}/metrics`)).text()
    expect(text).toMatch(/^sluice_websocket_notifications_total\{topic="slot"\} [1-9]\d*$/m)
    expect(text).toMatch(/^sluice_upstream_geyser_up\{set="default"\} 1$/m)
    expect(text).not.toContain(nodeToken)
  })
})

it('reaches the chain by each of the three', () => {
  expect(relays.rpc.map(({ accepted }) => accepted > 0)).toEqual([true, true, true])
})
