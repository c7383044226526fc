// Slow and silent clients: each suffers alone, within a bound.
import { afterEach, describe, expect, it } from 'vitest'
import { accountUpdate } from '../../src/chain/solana/received-batch.ts'
import { standardPlan, unlimitedPlan } from '../../src/customers/subscriptions/plans.ts'
import { openSolanaHub } from '../../src/streams/geyser/hub.ts'
import { GrpcStage, Subscription, withToken } from '../testkit/grpc-stage.ts'
import { randomOf, SyntheticSolana } from '../testkit/synthetic-solana.ts'
import { until } from '../testkit/until.ts'

let stage: GrpcStage

afterEach(async () => {
  await stage.close()
})

const backlogBytesMax = 128 * 1024
const plans = { standard: standardPlan, unlimited: unlimitedPlan }

/** Accounts of 8 KiB, numbered by their write version. */
function largeAccounts(count: number, slot = 1) {
  const chain = new SyntheticSolana()
  const content = { ...chain.account(chain.keys[0]!, null), data: new Uint8Array(8 * 1024).fill(7) }
  return Array.from({ length: count }, (_, index) =>
    accountUpdate(
      { slot, createdAtMs: 1_700_000_000_000 },
      { ...content, writeVersion: BigInt(index + 1) },
    ),
  )
}

async function open(token: string, request: object): Promise<Subscription> {
  const subscription = new Subscription(stage.client(), withToken(token))
  subscription.ask(request)
  await subscription.settled()
  return subscription
}

describe('a client that never reads', () => {
  it('is ended, and 50 that read get everything', async () => {
    stage = await GrpcStage.open({ plans, section: { backlogBytesMax } })
    const { token } = stage.provision({ plan: 'unlimited' })
    const readers: Subscription[] = []
    for (let count = 0; count < 50; count++)
      // Half of them share their filters with the silent one.
      readers.push(
        await open(token, { accounts: { [count % 2 === 0 ? 'same' : `f${count}`]: {} } }),
      )
    const silent = await open(token, { accounts: { same: {} } })
    silent.stream.pause()
    const updates = largeAccounts(100)
    for (const update of updates) {
      stage.publish([update])
      await new Promise((resolve) => setImmediate(resolve))
    }
    const lagged = 'sluice_grpc_streams_ended_total{reason="lagged"}'
    await until(async () => (await stage.meter(lagged)) === 1, 'the silent one to be ended')
    expect(await stage.meter('sluice_grpc_streams')).toBe(50)
    await until(() => readers.every((one) => one.of('account').length === 100), 'all for readers')
    for (const reader of readers) {
      expect(reader.status).toBeNull()
      const versions = reader.of('account').map(({ account }) => Number(account.writeVersion))
      expect(versions).toEqual(updates.map((_, index) => index + 1))
    }
    expect(silent.of('account').length).toBeLessThan(100)
    silent.stream.resume()
    await until(() => silent.status !== null, 'its status')
    expect(silent.status?.code).toBe(15)
    expect(silent.status?.details).toMatch(/^lagged: \d+ bytes/)
  })
})

describe('a reused buffer', () => {
  it('never changes under bytes that are still to be sent', async () => {
    stage = await GrpcStage.open({ plans })
    const { token } = stage.provision({ plan: 'unlimited' })
    const readers = [
      await open(token, { accounts: { same: {} } }),
      await open(token, { accounts: { same: {} } }),
      await open(token, { accounts: { other: {} } }),
    ]
    const random = randomOf(8)
    const [first] = largeAccounts(1)
    const content = { ...first!, txnSignature: null }
    const sent: Buffer[] = []
    for (let count = 0; count < 1_500; count++) {
      const data = Buffer.alloc(1 + Math.floor(random() * 12_000), count)
      sent.push(data)
      const moment = { slot: 1 + Math.floor(count / 50), createdAtMs: 1_700_000_000_000 }
      stage.publish([accountUpdate(moment, { ...content, data })])
      // Readers stop and go, each at its own time.
      const reader = readers[Math.floor(random() * 3)]!
      if (random() < 0.1) reader.stream.pause()
      else reader.stream.resume()
      if (random() < 0.3) await new Promise((resolve) => setImmediate(resolve))
    }
    for (const reader of readers) {
      reader.stream.resume()
      await until(() => reader.of('account').length === sent.length, 'all of them')
      const wrong = reader
        .of('account')
        .filter(({ account }, index) => !sent[index]!.equals(account.data))
      expect(wrong).toHaveLength(0)
    }
  })
})

describe('a replay that is not read', () => {
  it('waits for the reader, and ends when its slots are evicted', async () => {
    const hub = openSolanaHub({ replaySlots: 4, replayBytesMax: 1e9 })
    stage = await GrpcStage.open({ plans, hub })
    const { token } = stage.provision({ plan: 'unlimited' })
    for (let slot = 1; slot <= 3; slot++) stage.publish(largeAccounts(300, slot))
    const [reading, waiting] = [0, 1].map(() => {
      const subscription = new Subscription(stage.client(), withToken(token))
      subscription.ask({ accounts: { a: {} }, fromSlot: 1 })
      return subscription
    }) as [Subscription, Subscription]
    waiting.stream.pause()
    await until(() => reading.of('account').length === 900, 'the replay of the reader')
    for (let slot = 4; slot <= 8; slot++) stage.publish(largeAccounts(1, slot))
    await until(() => reading.of('account').length === 905, 'live')
    waiting.stream.resume()
    await until(() => waiting.status !== null, 'the status of the other')
    expect(waiting.status?.code).toBe(15)
    expect(waiting.status?.details).toMatch(/replay window/)
    expect(waiting.of('account').length).toBeLessThan(900)
  })

  it('ends it while the reader is still away', async () => {
    const hub = openSolanaHub({ replaySlots: 4, replayBytesMax: 1e9 })
    stage = await GrpcStage.open({ plans, hub })
    const { token } = stage.provision({ plan: 'unlimited' })
    stage.publish(largeAccounts(600))
    const waiting = new Subscription(stage.client(), withToken(token))
    waiting.stream.pause()
    waiting.ask({ accounts: { a: {} }, fromSlot: 1 })
    await until(async () => (await stage.meter('sluice_grpc_streams')) === 1, 'the stream')
    await until(async () => (await stage.meter('sluice_grpc_backlog_bytes')) > 1e6, 'a full queue')
    for (let slot = 2; slot <= 8; slot++) stage.publish(largeAccounts(1, slot))
    const lagged = 'sluice_grpc_streams_ended_total{reason="lagged"}'
    await until(async () => (await stage.meter(lagged)) === 1, 'the end of the stream')
    expect(await stage.meter('sluice_grpc_streams')).toBe(0)
    waiting.stream.resume()
    await until(() => waiting.status !== null, 'its status')
    expect(waiting.status?.code).toBe(15)
    expect(waiting.status?.details).toMatch(/replay window/)
  })
})
