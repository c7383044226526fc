// Two gateways in front of one node, each killed in turn and started anew on its data folder, and a
// PubSub client that goes from one to the other: nothing is lost and nothing comes twice.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { PubsubClient } from '../../src/client/node.ts'
import { NodeSocket } from '../../src/client/node-socket.ts'
import { startDevnode } from '../testkit/devnode.ts'
import { PubsubOracle } from '../testkit/pubsub-oracle.ts'
import { isSlice } from '../testkit/slice.ts'
import { SolanaNode } from '../testkit/solana-node.ts'
import { until } from '../testkit/until.ts'

const kills = isSlice ? 2 : 6
let folder: string
let node: SolanaNode
let gateways: SolanaNode[]
let flags: string[]

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'pubsub-kills-'))
  node = await SolanaNode.of(await startDevnode({ flags: ['--traffic=40'] }))
  const of = { rpc: node.url, grpc: node.server.url('grpc'), xToken: node.token }
  const config = {
    chain: { source: 'upstream' },
    upstreams: { default: { nodes: [of] } },
    metrics: { enabled: false },
    tpu: { enabled: false },
    shredstream: { enabled: false },
  }
  const path = join(folder, 'sluice.yaml')
  writeFileSync(path, JSON.stringify(config))
  flags = [`--config=${path}`]
  gateways = [await SolanaNode.startWith(...flags), await SolanaNode.startWith(...flags)]
})

afterAll(async () => {
  for (const gateway of gateways ?? []) await gateway.dispose()
  await node?.dispose()
  rmSync(folder, { recursive: true })
})

it(`resumes over ${kills} kills of its gateways`, async () => {
  const client = new PubsubClient({
    url: ['0', '1'],
    backoffMs: { first: 10, most: 200 },
    open: (name) => {
      const { server, token } = gateways[Number(name)]!
      return new NodeSocket(server.url('websocket'), { 'x-token': token })
    },
  })
  const oracle = await PubsubOracle.open(node, client)
  const slot = async () => Number((await node.call('getSlot', { commitment: 'processed' })).result)
  for (let kill = 0; kill < kills; kill++) {
    const before = await slot()
    await until(async () => (await slot()) > before + 40, 'further slots')
    gateways[kill % 2] = await gateways[kill % 2]!.restarted(...flags)
  }
  await oracle.expectNothingLost(await slot())
  expect(oracle.problems).toEqual([])
  client.close()
  oracle.close()
})
