// The shapes of every notification of the websocket endpoint, held by golden files.
import { afterAll, beforeAll, describe, it } from 'vitest'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { retractionUpdate } from '../../src/chain/solana/received-batch.ts'
import { publishUpdate } from '../../src/streams/geyser/hub.ts'
import { expectShape } from '../testkit/golden.ts'
import { type Client, SubscriptionStage } from '../testkit/subscription-stage.ts'
import { until } from '../testkit/until.ts'

let stage: SubscriptionStage
let client: Client
beforeAll(async () => {
  stage = new SubscriptionStage({ accounts: 12, owners: 2 })
  await stage.open()
  client = await stage.connect()
})
afterAll(() => stage.stop())

describe('golden shapes of the notifications', () => {
  it('contains every kind', async () => {
    const commitment = 'confirmed'
    const encoding = 'base64'
    const key = encodeBase58(stage.synthetic.keys[0]!)
    const owner = encodeBase58(stage.synthetic.owners[0]!)
    const versions = { maxSupportedTransactionVersion: 0, showRewards: true }
    const subscriptions: Readonly<Record<string, readonly unknown[]>> = {
      account: [key, { commitment, encoding }],
      program: [owner, { commitment, encoding }],
      logs: ['all', { commitment }],
      slot: [],
      slotsUpdates: [],
      root: [],
      block: ['all', { commitment, transactionDetails: 'signatures', showRewards: true }],
      transaction: [{ failed: false }, { commitment, encoding: 'json', ...versions }],
    }
    const ids = new Map<string, number>()
    for (const [topic, params] of Object.entries(subscriptions))
      ids.set(topic, await client.subscribe(topic, ...params))
    for (let slot = 0; slot < 12; slot++) stage.step()
    for (const [topic, id] of ids) {
      await client.upTo(id, 1)
      const notices = client.notifications.filter(({ subscription }) => subscription === id)
      const chosen =
        topic === 'slotsUpdates' ? notices.find(({ result }) => 'stats' in result) : notices[0]
      expectShape(`websocket/${fileName(topic)}-notification`, chosen)
    }
    const updates = stage.synthetic.next()
    const landed = updates.find((update) => update.kind === 'transaction')!
    const signature = encodeBase58(landed.signature)
    const config = { commitment: 'processed', enableReceivedNotification: true }
    const subscribed = await client.ask('signatureSubscribe', [signature, config])
    expectShape('websocket/subscribed', subscribed)
    for (const update of updates) publishUpdate(stage.hub, update)
    await client.upTo(subscribed.result!, 2)
    const [received, outcome] = client.notifications.filter(
      ({ subscription }) => subscription === subscribed.result,
    )
    expectShape('websocket/signature-received-notification', received)
    expectShape('websocket/signature-notification', outcome)
    const retracting = { commitment: 'processed', retractions: true }
    const id = await client.subscribe('logs', 'all', retracting)
    for (const update of stage.synthetic.next()) publishUpdate(stage.hub, update)
    const moment = { slot: stage.synthetic.slot - 1, createdAtMs: 1 }
    const retracted = retractionUpdate(moment, { bank: 1, reason: 'fork', restated: [] })
    publishUpdate(stage.hub, retracted)
    const isRetraction = (one: { subscription: number; result: object }) =>
      one.subscription === id && 'retracted' in one.result
    await until(() => client.notifications.some(isRetraction), 'the retraction')
    expectShape('websocket/retraction', client.notifications.find(isRetraction))
    expectShape('websocket/unknown-id', await client.ask('slotUnsubscribe', [999_999]))
    expectShape('websocket/invalid-params', await client.ask('accountSubscribe', ['x']))
  })
})

const fileName = (topic: string) => topic.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
