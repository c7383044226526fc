// PubSub computed from the geyser stream of a node: unmodified web3.js and kit, golden shapes, and
// what the stream does not carry and is read from the node.
import { Keypair } from '@solana/web3.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { startDevnode } from '../testkit/devnode.ts'
import { expectShape } from '../testkit/golden.ts'
import { describePubsubClients } from '../testkit/pubsub-clients.ts'
import { nodeOf, PubsubStage } from '../testkit/pubsub-stage.ts'
import { SolanaNode, transfer } from '../testkit/solana-node.ts'
import {
  createMint,
  createTokenAccount,
  mintBytes,
  mintTo,
  tokenAccountBytes,
} from '../testkit/token-instructions.ts'
import { until } from '../testkit/until.ts'

let node: SolanaNode
let stage: PubsubStage
let token: string
beforeAll(async () => {
  node = await SolanaNode.of(await startDevnode({ flags: ['--traffic=20'] }))
  stage = await PubsubStage.start({ default: [nodeOf(node)], plain: [{ rpc: node.url }] })
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
    const subscriptions: Readonly<Record<string, readonly unknown[]>> = {
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
    for (const [name, params] of Object.entries(subscriptions)) {
      const topic = name.replace(/-(.)/, (_, letter) => letter.toUpperCase())
      ids.set(name, await client.subscribe(topic, ...params))
    }
    await node.connection.sendRawTransaction(bytes, { preflightCommitment: 'processed' })
    for (const [name, id] of ids) {
      const found = () =>
        client.notifications.find(
          ({ subscription, result }) =>
            subscription === id && (name !== 'slots-updates' || 'stats' in result),
        )
      await until(() => found() !== undefined, `${name} to be told`)
      expectShape(`websocket/${name}-notification`, found())
    }
    client.socket.terminate()
  })
})

describe('what the stream does not carry', () => {
  it('is read for a token account: the decimals of its mint', async () => {
    const from = await node.funded()
    const [mint, account] = [Keypair.generate(), Keypair.generate()]
    const rentOf = (bytes: number) => node.connection.getMinimumBalanceForRentExemption(bytes)
    await node.land(createMint(from, mint, await rentOf(mintBytes)), [from, mint])
    const of = {
      mint: mint.publicKey,
      owner: from.publicKey,
      lamports: await rentOf(tokenAccountBytes),
    }
    await node.land(createTokenAccount(from, account, of), [from, account])
    const key = account.publicKey.toBase58()
    await until(async () => (await node.call('getBalance', key)).result.value > 0, 'the account')
    // The mint was written before anybody subscribed.
    const client = await stage.connect()
    const config = { commitment: 'processed', encoding: 'jsonParsed' }
    const id = await client.subscribe('account', key, config)
    const plain = await client.subscribe('account', key, { ...config, encoding: 'base64' })
    for (const [at, amount] of [1_500_000n, 500_000n].entries()) {
      await node.land([mintTo(mint.publicKey, account.publicKey, from.publicKey, amount)], [from])
      // One slot each: an account is notified once per slot.
      await client.upTo(id, at + 1)
    }
    const parsed = client.of(id).map(({ value }) => value.data.parsed)
    expect(parsed.map(({ info }) => info.tokenAmount.uiAmountString)).toEqual(['1.5', '2'])
    expect(parsed[0].info.mint).toBe(mint.publicKey.toBase58())
    expect((await client.upTo(plain, 2))[0].value.data[1]).toBe('base64')
  })

  it('is read for a signature that landed before, which is notified once', async () => {
    const from = await node.funded()
    const signature = await node.land([transfer(from, from.publicKey, 1)], [from])
    await node.reached(signature, 'finalized')
    const client = await stage.connect()
    const slots = await client.subscribe('slot')
    for (const commitment of ['processed', 'confirmed', 'finalized']) {
      const config = { commitment, enableReceivedNotification: true }
      const id = await client.subscribe('signature', signature, config)
      const told = (await client.upTo(id, 2)).map(({ value }) => value)
      expect(told).toEqual(['receivedSignature', { err: null }])
      const heard = client.of(slots).length
      await client.upTo(slots, heard + 5)
      expect(client.of(id)).toHaveLength(2)
      expect(await client.ask('signatureUnsubscribe', [id])).toHaveProperty('error')
    }
  })

  it('is notified once per subscriber, whether the stream or the node is faster', async () => {
    const from = await node.funded()
    const client = await stage.connect()
    const config = { commitment: 'processed', enableReceivedNotification: true }
    const ids: number[] = []
    for (let lamports = 1; lamports <= 40; lamports++) {
      const bytes = await node.signed([transfer(from, from.publicKey, lamports)], [from])
      const signature = encodeBase58(bytes.subarray(1, 65))
      const sent = node.connection.sendRawTransaction(bytes, { skipPreflight: true })
      await new Promise((resolve) => setTimeout(resolve, lamports * 2))
      ids.push(await client.subscribe('signature', signature, config))
      await sent
    }
    for (const id of ids) await client.upTo(id, 2)
    const slots = await client.subscribe('slot')
    await client.upTo(slots, 10)
    expect(ids.map((id) => client.of(id).map(({ value }) => value))).toEqual(
      ids.map(() => ['receivedSignature', { err: null }]),
    )
  })
})

describe('a set without a geyser node', () => {
  it('has no websocket: the upgrade is refused with 503 and the reason', async () => {
    const bound = { products: ['bundle', 'dedicated-node'], upstream: 'plain' }
    const { token: xToken } = stage.bundle.issue(bound)
    const socket = new WebSocket(stage.url, { headers: { 'x-token': xToken } })
    const [status, body] = await new Promise<[number, string]>((resolve) =>
      socket.on('unexpected-response', (_, response) => {
        let text = ''
        response.on('data', (chunk) => {
          text += chunk
        })
        response.on('end', () => resolve([response.statusCode ?? 0, text]))
      }),
    )
    expect([status, JSON.parse(body).error]).toEqual([
      503,
      {
        code: -32005,
        message: 'WebSocket is not available: no node of this subscription has a geyser stream',
      },
    ])
  })
})
