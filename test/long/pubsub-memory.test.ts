// Subscriptions that come and go under traffic leave nothing behind.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterAll, expect, test } from 'vitest'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { type Client, SubscriptionStage } from '../testkit/subscription-stage.ts'
import { until } from '../testkit/until.ts'

const connections = 40
const rounds = 30
const slotsPerRound = 20

const stage = new SubscriptionStage({ accounts: 50, transactionsPerSlot: 20 })
afterAll(() => stage.stop())

test('memory is flat after thousands of subscriptions and updates', async () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  await stage.open()
  const { token } = stage.bundle.issue()
  const clients: Client[] = []
  for (let index = 0; index < connections; index++) clients.push(await stage.connect(token))
  const used: number[] = []
  for (let round = 0; round < rounds; round++) {
    await oneRound(clients, round)
    expect(stage.meters.subscriptions()).toMatchObject({ count: 0, distinct: 0 })
    collect()
    const { heapUsed, external } = process.memoryUsage()
    used.push(heapUsed + external)
  }
  const early = Math.max(...used.slice(5, 10))
  expect(Math.min(...used.slice(-5))).toBeLessThan(early * 1.05)
})

/** Every connection takes ten subscriptions, hears of some slots, and lets go of them. */
async function oneRound(clients: readonly Client[], round: number): Promise<void> {
  const { keys, owners } = stage.synthetic
  const config = { commitment: 'processed', encoding: 'base64' }
  const held = await Promise.all(
    clients.map(async (client, index) => {
      const key = (offset: number) => encodeBase58(keys[(index + round + offset) % keys.length]!)
      return Promise.all([
        client.subscribe('slot'),
        client.subscribe('root'),
        client.subscribe('slotsUpdates'),
        client.subscribe('logs', { mentions: [key(1)] }, config),
        client.subscribe('transaction', { accountInclude: [key(2), key(3)] }, config),
        client.subscribe('program', encodeBase58(owners[index % owners.length]!), config),
        ...[4, 5, 6, 7].map((offset) => client.subscribe('account', key(offset), config)),
      ])
    }),
  )
  for (let slot = 0; slot < slotsPerRound; slot++) {
    stage.step()
    const told = () => clients.every((one, at) => one.of(held[at]![0]!).length > slot)
    await until(told, 'the slot to be told')
  }
  await Promise.all(
    clients.map((client, at) =>
      Promise.all(held[at]!.map((id) => client.ask('slotUnsubscribe', [id]))),
    ),
  )
  for (const client of clients) client.notifications.length = 0
}
