// A client that loses its connection again and again and continues at another gateway, beside one
// that reads the node itself: nothing is lost and nothing comes twice. The gateways keep 8 slots in
// memory and the rest on disk; one of them is stopped and started anew.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { PubsubClient } from '../../src/client/node.ts'
import { NodeSocket } from '../../src/client/node-socket.ts'
import { startDevnode } from '../testkit/devnode.ts'
import { PubsubOracle } from '../testkit/pubsub-oracle.ts'
import { nodeOf, PubsubStage } from '../testkit/pubsub-stage.ts'
import { SolanaNode } from '../testkit/solana-node.ts'
import { until } from '../testkit/until.ts'

let folder: string
let node: SolanaNode
let gateways: PubsubStage[]
let tokens: string[]

const start = (name: string) =>
  PubsubStage.start({ default: [nodeOf(node)] }, { logFolder: join(folder, name) })

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'pubsub-resume-'))
  // A replay waits for the disk several times per slot: on a busy machine not faster than this.
  const slots = { slotMs: 200, flags: ['--traffic=20'] }
  node = await SolanaNode.of(await startDevnode(slots))
  gateways = [await start('a'), await start('b')]
  tokens = gateways.map(({ bundle }) => bundle.issue().token)
})

afterAll(async () => {
  for (const gateway of gateways ?? []) await gateway.stop()
  await node?.dispose()
  rmSync(folder, { recursive: true })
})

it('loses nothing and repeats nothing over gateways and restarts', async () => {
  const open: NodeSocket[] = []
  const client = new PubsubClient({
    url: ['0', '1'],
    backoffMs: { first: 1, most: 20 },
    open: (name) => {
      const at = Number(name)
      const socket = new NodeSocket(gateways[at]!.url, { 'x-token': tokens[at]! })
      open.push(socket)
      return socket
    },
  })
  const oracle = await PubsubOracle.open(node, client)
  const slot = () => gateways[1]!.streams.of('default')!.slot(0)
  for (let cuts = 0; cuts < 8; cuts++) {
    const before = slot()
    await until(() => slot() > before + (cuts % 3), 'further slots')
    if (cuts === 4) {
      await gateways[0]!.stop()
      const at = slot()
      await until(() => slot() > at + 12, 'more slots than memory has')
      gateways[0] = await start('a')
      tokens[0] = gateways[0].bundle.issue().token
    }
    open.at(-1)?.close()
  }
  const last = slot()
  await until(async () => (await node.connection.getSlot('finalized')) > last + 1, 'the last slot')
  // The rest is finite, however slowly this machine replays it.
  await node.call('surfnet_pauseClock')
  await oracle.expectNothingLost(last)
  expect(oracle.problems).toEqual([])
  client.close()
  oracle.close()
})
