// A devnode whose chain is reset behind a running gateway: the gateway goes on with the new chain.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { type Devnode, startDevnode } from '../testkit/devnode.ts'
import { SolanaNode } from '../testkit/solana-node.ts'
import { until } from '../testkit/until.ts'

let devnode: Devnode
let gateway: SolanaNode

beforeAll(async () => {
  devnode = await startDevnode()
  gateway = await SolanaNode.before([await SolanaNode.of(devnode)], '--metrics.enabled=false')
})

afterAll(async () => {
  await gateway?.dispose()
  await devnode?.dispose()
})

const genesis = async () => (await gateway.call('getGenesisHash')).result

it('serves rpc and websocket from the chain that its only node began', async () => {
  const before = await genesis()
  const slots: number[] = []
  const socket = new WebSocket(gateway.server.url('websocket'), {
    headers: { 'x-token': gateway.token },
  })
  socket.on('open', () => socket.send('{"jsonrpc":"2.0","id":1,"method":"slotSubscribe"}'))
  socket.on('message', (text) => {
    const slot = JSON.parse(`${text}`).params?.result?.slot
    if (slot !== undefined) slots.push(slot)
  })
  await until(() => (slots.at(-1) ?? 0) > 150, 'slots of the first chain')
  await devnode.stop('SIGKILL')
  const reached = Math.max(...slots)
  const ports = ['rpc', 'grpc'].map((name) => `--${name}-port=${new URL(devnode.url(name)).port}`)
  const { ledger } = devnode
  devnode = await startDevnode({ ledger, ports: [...ports, '--ws-port=0'], flags: ['--reset'] })
  const count = slots.length
  await until(() => slots.length > count + 10, 'slots of the second chain')
  expect(slots[count]).toBeLessThan(reached)
  await until(async () => ![before, undefined].includes(await genesis()), 'the genesis hash')
  const seen = (await gateway.call('getSlot', { commitment: 'processed' })).result
  expect(seen).toBeGreaterThanOrEqual(slots[count]!)
  socket.close()
})
