// The relay between customers and real nodes that are killed, frozen and brought back.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openSolanaHub, publishUpdate } from '../../src/geyser/hub.ts'
import { encodeBase58 } from '../../src/solana/base58.ts'
import type { Log } from '../../src/telemetry/log.ts'
import { nodeOf, RelayStage } from '../support/relay-stage.ts'
import { SolanaNode, transfer } from '../support/solana-node.ts'
import type { Client } from '../support/subscription-stage.ts'
import { SyntheticSolana } from '../support/synthetic-solana.ts'
import { until } from '../support/until.ts'

const waitMs = 60_000
let node: SolanaNode
let stage: RelayStage
const lines: string[] = []
const kept: Log = {
  debug: (msg, fields) => void lines.push(JSON.stringify({ msg, ...fields })),
  info: (msg, fields) => void lines.push(JSON.stringify({ msg, ...fields })),
  warn: (msg, fields) => void lines.push(JSON.stringify({ msg, ...fields })),
  error: (msg, fields) => void lines.push(JSON.stringify({ msg, ...fields })),
  area: () => kept,
}

beforeAll(async () => {
  node = await SolanaNode.start()
  stage = await RelayStage.start({ default: [nodeOf(node)] }, { log: kept })
})
afterAll(async () => {
  await stage?.stop()
  await node?.dispose()
})

/** Slots that a customer hears of go on: the relay is on its feet again. */
async function goesOn(client: Client, id: number): Promise<void> {
  const heard = client.of(id).length
  await until(() => client.of(id).length > heard, 'slots to go on', waitMs)
}

describe('a set with one node', () => {
  it('holds one subscription there for a hundred customers', async () => {
    const from = await node.funded()
    const key = from.publicKey.toBase58()
    const clients = await Promise.all(Array.from({ length: 100 }, () => stage.connect()))
    const config = { commitment: 'processed', encoding: 'base64' }
    const ids = await Promise.all(clients.map((one) => one.subscribe('account', key, config)))
    expect([new Set(ids).size, stage.count()]).toEqual([1, 1])
    await node.land([transfer(from, from.publicKey, 1)], [from])
    for (const client of clients) expect(await client.upTo(ids[0]!, 1)).toHaveLength(1)
    for (const client of clients) client.socket.close()
    await until(() => stage.count() === 0, 'the subscription to end at the node')
  })

  it('outlives kill -9: the confirmation comes, the value is told once, nobody is cut', async () => {
    const from = await node.funded()
    const client = await stage.connect()
    const slots = await client.subscribe('slot')
    const key = from.publicKey.toBase58()
    const config = { commitment: 'confirmed', encoding: 'base64' }
    await until(async () => (await node.call('getBalance', key)).result.value > 0, 'the airdrop')
    const account = await client.subscribe('account', key, config)
    const signature = await node.land([transfer(from, from.publicKey, 1)], [from])
    const pending = await client.subscribe('signature', signature, { commitment: 'finalized' })
    await node.reached(signature, 'confirmed')
    await client.upTo(account, 1)
    const before = { ...stage.tally() }
    await node.server.stop('SIGKILL')
    await until(() => stage.tally().reconnects > before.reconnects, 'the loss to be seen', waitMs)
    expect(await (await stage.connect()).ask('rootSubscribe')).toMatchObject({
      error: { code: -32005, data: { numSlotsBehind: null } },
    })
    node = await node.started()
    await goesOn(client, slots)
    await until(() => client.of(pending).length > 0, 'the confirmation', waitMs)
    expect(client.of(pending)).toMatchObject([{ value: { err: null } }])
    await until(() => stage.tally().resent > before.resent, 'the value to be read', waitMs)
    await goesOn(client, slots)
    expect(client.of(account)).toHaveLength(2)
    const [told, again] = client.of(account)
    expect(again.value).toEqual(told.value)
    expect(Object.keys(again.context)).toEqual(['slot'])
    expect(stage.tally().resent - before.resent).toBe(1)
    expect(client.socket.readyState).toBe(client.socket.OPEN)
  }, 120_000)

  it('tells a confirmation that was missed and a value that changed in between', async () => {
    const from = await node.funded()
    const client = await stage.connect()
    const slots = await client.subscribe('slot')
    const config = { commitment: 'confirmed', encoding: 'base64' }
    const key = from.publicKey.toBase58()
    await until(async () => (await node.call('getBalance', key)).result.value > 0, 'the airdrop')
    const bytes = await node.signed([transfer(from, from.publicKey, 1)], [from])
    const signature = encodeBase58(bytes.subarray(1, 65))
    const account = await client.subscribe('account', key, config)
    const pending = await client.subscribe('signature', signature, { commitment: 'confirmed' })
    // The relay is blind for a while, the node is not.
    node.server.child.kill('SIGSTOP')
    const { reconnects } = stage.tally()
    await until(() => stage.tally().reconnects > reconnects, 'the freeze to be seen', waitMs)
    node.server.child.kill('SIGCONT')
    await node.connection.sendRawTransaction(bytes, { preflightCommitment: 'processed' })
    await until(() => client.of(pending).length > 0, 'the confirmation', waitMs)
    await until(
      () => client.of(account).some(({ value }) => value.lamports === 9_999_995_000),
      'the value after the fee',
      waitMs,
    )
    await goesOn(client, slots)
    expect(client.of(pending)).toHaveLength(1)
  }, 120_000)

  it('never tells its address or token', () => {
    expect(lines.some((line) => line.includes('a PubSub connection is lost'))).toBe(true)
    const { doors } = node.server
    const secrets = [node.token, String(doors.rpc!.port), String(doors.websocket!.port)]
    for (const line of lines) for (const secret of secrets) expect(line).not.toContain(secret)
  })
})

describe('a set with two nodes', () => {
  it('moves on within seconds when the node in use is frozen or lost', async () => {
    const other = await SolanaNode.start()
    const pair = await RelayStage.start({ default: [nodeOf(node), nodeOf(other)] })
    try {
      const client = await pair.connect()
      const slots = await client.subscribe('slot')
      const [first] = pair.upstreams.set('default')!.nodes
      expect(pair.pubsub.at('default/1')).toEqual({ connected: true, subscriptions: 1 })
      await goesOn(client, slots)
      node.server.child.kill('SIGSTOP')
      await until(() => pair.tally().resubscribed >= 1, 'the other node to take it', waitMs)
      await goesOn(client, slots)
      node.server.child.kill('SIGCONT')
      await until(() => first!.state === 'up', 'the node to be back', waitMs)
      await other.server.stop('SIGKILL')
      await goesOn(client, slots)
      expect(pair.tally().resubscribed).toBeGreaterThanOrEqual(2)
      expect(client.socket.readyState).toBe(client.socket.OPEN)
    } finally {
      node.server.child.kill('SIGCONT')
      await pair.stop()
      await other.dispose()
    }
  }, 120_000)
})

describe('a dedicated customer beside our own chain', () => {
  it('hears his own node and nobody else does; without it he gets the error', async () => {
    const hub = openSolanaHub({ replaySlots: 0, replayBytesMax: 0 })
    const chain = { slot: () => 77, signatureStatus: () => null }
    const mixed = await RelayStage.start(
      { own: [nodeOf(node)] },
      { initialSet: null, solana: { hub, chain, readAccount: () => null } },
    )
    try {
      const dedicated = { products: ['bundle', 'dedicated-node'], upstream: 'own' }
      const [bound, local] = [
        await mixed.connect(mixed.bundle.issue(dedicated).token),
        await mixed.connect(),
      ]
      const [ofNode, ofHub] = [await bound.subscribe('slot'), await local.subscribe('slot')]
      expect(ofNode).not.toBe(ofHub)
      await goesOn(bound, ofNode)
      expect(local.notices).toEqual([])
      const synthetic = new SyntheticSolana()
      const told = bound.notices.length
      for (let slot = 0; slot < 3; slot++)
        for (const update of synthetic.next()) publishUpdate(hub, update)
      const heard = await local.upTo(ofHub, 3)
      expect(heard.every(({ root }) => root <= 77)).toBe(true)
      expect(bound.notices.slice(told).every(({ subscription }) => subscription === ofNode)).toBe(
        true,
      )
      await node.server.stop('SIGKILL')
      const own = { set: 'own', topic: 'root' }
      await until(() => mixed.pubsub.problem(own) !== null, 'the loss to be seen', waitMs)
      expect(await bound.ask('rootSubscribe')).toMatchObject({ error: { code: -32005 } })
      expect(await local.ask('rootSubscribe')).toHaveProperty('result')
    } finally {
      await mixed.stop()
      node = await node.started()
    }
  }, 120_000)
})
