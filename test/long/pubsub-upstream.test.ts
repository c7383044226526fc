// PubSub from the geyser stream of a node that is killed, frozen and restarted.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Log } from '../../src/base/telemetry/log.ts'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { type Devnode, startDevnode } from '../testkit/devnode.ts'
import { nodeOf, PubsubStage } from '../testkit/pubsub-stage.ts'
import { SolanaNode, transfer } from '../testkit/solana-node.ts'
import type { Client } from '../testkit/subscription-stage.ts'
import { until } from '../testkit/until.ts'

let devnode: Devnode
let node: SolanaNode
let stage: PubsubStage
const lines: string[] = []
const keep = (msg: string, fields?: object) => void lines.push(JSON.stringify({ msg, ...fields }))
const log: Log = { debug: keep, info: keep, warn: keep, error: keep, area: () => log }

beforeAll(async () => {
  devnode = await startDevnode()
  node = await SolanaNode.of(devnode)
  stage = await PubsubStage.start({ default: [nodeOf(node)] }, { log })
})
afterAll(async () => {
  await stage?.stop()
  await devnode?.dispose()
})

async function slotsGoOn(client: Client, id: number): Promise<void> {
  const received = client.of(id).length
  await until(() => client.of(id).length > received + 5, 'more slots')
}

/** Slots rise and none comes twice. */
function expectEachOnce(slots: readonly number[]): void {
  expect(slots).toEqual([...new Set(slots)].toSorted((a, b) => a - b))
}

describe('a set with one node', () => {
  it('sends an update of it to a hundred customers, encoded once', async () => {
    const from = await node.funded()
    const key = from.publicKey.toBase58()
    await until(async () => (await node.call('getBalance', key)).result.value > 0, 'the airdrop')
    const clients = await Promise.all(Array.from({ length: 100 }, () => stage.connect()))
    const config = { commitment: 'processed', encoding: 'base64' }
    const ids = await Promise.all(clients.map((one) => one.subscribe('account', key, config)))
    expect(new Set(ids).size).toBe(1)
    await node.land([transfer(from, from.publicKey, 1)], [from])
    for (const client of clients) expect(await client.upTo(ids[0]!, 1)).toHaveLength(1)
    for (const client of clients) client.socket.close()
  })

  it('loses and duplicates no notification when the node is killed with -9', async () => {
    const from = await node.funded()
    const client = await stage.connect()
    const roots = await client.subscribe('root')
    const key = from.publicKey.toBase58()
    await until(async () => (await node.call('getBalance', key)).result.value > 0, 'the airdrop')
    const config = { commitment: 'confirmed', encoding: 'base64' }
    const account = await client.subscribe('account', key, config)
    const signature = await node.land([transfer(from, from.publicKey, 1)], [from])
    const pending = await client.subscribe('signature', signature, { commitment: 'finalized' })
    await node.reached(signature, 'confirmed')
    await client.upTo(account, 1)
    const { failures, connections } = stage.counts()
    process.kill(devnode.nodePid(), 'SIGKILL')
    await until(() => stage.counts().failures > failures, 'the loss')
    await until(() => stage.counts().connections > connections, 'the resume')
    await slotsGoOn(client, roots)
    await until(() => client.of(pending).length > 0, 'the confirmation')
    await slotsGoOn(client, roots)
    expect(client.of(pending)).toMatchObject([{ value: { err: null } }])
    expect(client.of(account)).toHaveLength(1)
    expectEachOnce(client.of(roots))
    expect(client.socket.readyState).toBe(client.socket.OPEN)
    expect(stage.counts()).toMatchObject({ gapSlots: 0, incompleteBlocks: 0 })
  })

  it('refuses a new subscription with -32005 while the node is frozen, and recovers after it', async () => {
    const from = await node.funded()
    const client = await stage.connect()
    const slots = await client.subscribe('slot')
    const key = from.publicKey.toBase58()
    await until(async () => (await node.call('getBalance', key)).result.value > 0, 'the airdrop')
    const bytes = await node.signed([transfer(from, from.publicKey, 1)], [from])
    const signature = encodeBase58(bytes.subarray(1, 65))
    const pending = await client.subscribe('signature', signature, { commitment: 'confirmed' })
    const { isUp } = stage.streams.of('default')!
    const pid = devnode.nodePid()
    process.kill(pid, 'SIGSTOP')
    try {
      await until(() => !isUp(), 'the stream to be down')
      expect(await client.ask('rootSubscribe')).toMatchObject({
        error: { code: -32005, data: { numSlotsBehind: null } },
      })
    } finally {
      process.kill(pid, 'SIGCONT')
    }
    await until(isUp, 'the stream to be up')
    expect(await client.ask('rootSubscribe')).toHaveProperty('result')
    await slotsGoOn(client, slots)
    await node.connection.sendRawTransaction(bytes, { preflightCommitment: 'processed' })
    await until(() => client.of(pending).length > 0, 'the confirmation')
    await slotsGoOn(client, slots)
    expect(client.of(pending)).toHaveLength(1)
    expectEachOnce(client.of(slots).map(({ slot }) => slot))
  })

  it('writes no address of the node to the log', () => {
    expect(lines.some((line) => line.includes('geyser stream ended'))).toBe(true)
    const ports = ['rpc', 'grpc'].map((name) => new URL(devnode.url(name)).port)
    for (const line of lines) for (const port of ports) expect(line).not.toContain(port)
  })
})
