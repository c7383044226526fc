// Unmodified web3.js and kit, subscribed through the relay to a node behind it.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { encodeBase58 } from '../../src/solana/base58.ts'
import { expectShape } from '../support/golden.ts'
import { describePubsubClients } from '../support/pubsub-clients.ts'
import { nodeOf, RelayStage } from '../support/relay-stage.ts'
import { SolanaNode, transfer } from '../support/solana-node.ts'
import { until } from '../support/until.ts'

let node: SolanaNode
let stage: RelayStage
let token: string
beforeAll(async () => {
  node = await SolanaNode.start('--chain.traffic=20')
  stage = await RelayStage.start({ default: [nodeOf(node)] })
  token = stage.bundle.issue().token
})
afterAll(async () => {
  await stage?.stop()
  await node?.dispose()
})

describePubsubClients(() => ({ node, url: stage.url, token }))

describe('every kind of notification', () => {
  it('comes through in its golden shape', async () => {
    const client = await stage.connect()
    const [commitment, encoding] = ['confirmed', 'base64']
    const from = await node.funded()
    const key = from.publicKey.toBase58()
    await until(async () => (await node.call('getBalance', key)).result.value > 0, 'the airdrop')
    const versions = { maxSupportedTransactionVersion: 0, showRewards: true }
    const bytes = await node.signed([transfer(from, from.publicKey, 1)], [from])
    const signature = encodeBase58(bytes.subarray(1, 65))
    const wishes: Readonly<Record<string, readonly unknown[]>> = {
      account: [key, { commitment, encoding }],
      program: ['1'.repeat(32), { commitment, encoding }],
      logs: [{ mentions: [key] }, { commitment }],
      slot: [],
      'slots-updates': [],
      root: [],
      block: ['all', { commitment, transactionDetails: 'signatures', showRewards: true }],
      transaction: [{ accountInclude: [key] }, { commitment, encoding: 'json', ...versions }],
      signature: [signature, { commitment }],
    }
    const ids = new Map<string, number>()
    for (const [name, params] of Object.entries(wishes)) {
      const topic = name.replace(/-(.)/, (_, letter) => letter.toUpperCase())
      ids.set(name, await client.subscribe(topic, ...params))
    }
    expect(stage.count()).toBe(ids.size)
    await node.connection.sendRawTransaction(bytes, { preflightCommitment: 'processed' })
    for (const [name, id] of ids) {
      const found = () =>
        client.notices.find(
          ({ subscription, result }) =>
            subscription === id && (name !== 'slots-updates' || 'stats' in result),
        )
      await until(() => found() !== undefined, `${name} to be told`, 30_000)
      expectShape(`websocket/${name}-notification`, found())
    }
    client.socket.terminate()
    await until(() => stage.count() === 0, 'the node to be rid of everything')
  })
})

describe('after the clients', () => {
  it('leaves nothing subscribed at the node', async () => {
    const client = await stage.connect()
    expect(await client.subscribe('slot')).toBeGreaterThan(0)
    client.socket.terminate()
    await until(() => stage.count() === 0, 'the node to be rid of everything')
  })
})
