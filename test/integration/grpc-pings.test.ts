// What requests on an open Subscribe stream cost: pings, and bytes before they are decoded.
import { afterEach, describe, expect, it } from 'vitest'
import { builtInPlans, standardPlan } from '../../src/customers/subscriptions/plans.ts'
import { call, codec, GrpcStage, Subscription, withToken } from '../testkit/grpc-stage.ts'
import { until } from '../testkit/until.ts'

let stage: GrpcStage

afterEach(async () => {
  await stage.close()
})

/** A plan of `burst` credits that hardly regains any. */
const slow = (burst: number) => ({
  plans: { ...builtInPlans, standard: { ...standardPlan, creditsPerSecond: 1, burst } },
})
const encode = (request: object) => Buffer.from(codec.encode('geyser.SubscribeRequest', request))

/** A ping that carries some 4 MB of filters. */
function largePing(): Buffer {
  const account = Array.from({ length: 85_000 }, (_, index) => `${'1'.repeat(38)}${index}`)
  return encode({ accounts: { a: { account } }, ping: { id: 1 } })
}

describe('pings', () => {
  it('of 4 MB cost credits before they are decoded, and are refused', async () => {
    stage = await GrpcStage.open(slow(200))
    const { token } = stage.provision()
    const client = stage.client()
    const ping = largePing()
    const statuses: number[] = []
    for (let count = 0; count < 20; count++) {
      const subscription = new Subscription(client, withToken(token))
      subscription.askBytes(ping)
      await until(() => subscription.status !== null, 'a status')
      expect(subscription.of('pong')).toHaveLength(0)
      statuses.push(subscription.status!.code)
    }
    // 58 to 64 credits for the bytes and one for the stream, of 200.
    expect(statuses.slice(0, 3)).toEqual([3, 3, 3])
    expect(statuses.filter((code) => code === 8).length).toBeGreaterThanOrEqual(10)
  })

  it('with a few filters are answered, and change nothing', async () => {
    stage = await GrpcStage.open()
    const { token } = stage.provision()
    const subscription = new Subscription(stage.client(), withToken(token))
    subscription.ask({ ping: { id: 5 }, slots: { a: {} } })
    await until(() => subscription.of('pong').length === 1, 'the pong')
    expect(subscription.of('pong')[0]).toMatchObject({ id: 5 })
    expect(await stage.meter('sluice_grpc_groups')).toBe(0)
  })

  it('are free at a usual pace, also without any budget left', async () => {
    stage = await GrpcStage.open(slow(5))
    const { token } = stage.provision()
    const client = stage.client()
    const subscription = new Subscription(client, withToken(token))
    let code = 0
    while (code === 0) ({ code } = await call(client, 'GetVersion', {}, withToken(token)))
    expect(code).toBe(8)
    for (let count = 0; count < 10; count++) await subscription.settled()
    expect(subscription.status).toBeNull()
  })

  it('beyond that cost a credit per ten, and end the stream without budget', async () => {
    stage = await GrpcStage.open(slow(6))
    const { token } = stage.provision()
    const subscription = new Subscription(stage.client(), withToken(token))
    const startMs = performance.now()
    for (let count = 1; count <= 500; count++) subscription.ask({ ping: { id: count } })
    await until(() => subscription.status !== null, 'the end of the stream')
    const seconds = Math.ceil((performance.now() - startMs) / 1_000)
    expect(subscription.status?.code).toBe(8)
    // 10 free and one a second; 5 credits and one a second for ten pings each.
    const pongs = subscription.of('pong').length
    expect(pongs).toBeGreaterThanOrEqual(60)
    expect(pongs).toBeLessThanOrEqual(60 + 11 * seconds)
  })
})

describe('a large request', () => {
  it('costs a credit per 64 KiB, whatever is in it', async () => {
    stage = await GrpcStage.open(slow(60))
    const { token } = stage.provision()
    const subscription = new Subscription(stage.client(), withToken(token))
    // Two million empty entries: no key, and much to decode.
    subscription.askBytes(Buffer.alloc(4 * 1024 * 1024).fill(Buffer.from([0x12, 0x00])))
    await until(() => subscription.status !== null, 'a status')
    expect(subscription.status?.code).toBe(8)
  })
})
