// What one customer may cost the websocket endpoint, over all its connections; others do not feel it.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Client, SubscriptionStage } from '../testkit/subscription-stage.ts'
import { until } from '../testkit/until.ts'

let stage: SubscriptionStage
let client: Client

beforeAll(async () => {
  stage = new SubscriptionStage(
    { accounts: 12 },
    {
      two: { distinctSubscriptions: 2 },
      // Two notifications at once and about one a second.
      slow: { notificationBytesPerSecond: 5_000 },
    },
  )
  await stage.open()
  client = await stage.connect()
})

afterAll(() => stage.stop())

describe('the limits of a customer', () => {
  it('refuses distinct subscriptions over the plan, on all connections of a customer', async () => {
    const { token } = stage.bundle.issue({ plan: 'two' })
    const [one, two] = [await stage.connect(token), await stage.connect(token)]
    await one.subscribe('slot')
    await two.subscribe('root')
    const data = { reason: 'distinct-subscriptions', limit: 2 }
    expect(await one.ask('slotsUpdatesSubscribe')).toMatchObject({ error: { code: -32429, data } })
    expect((await one.ask('rootSubscribe')).result).toEqual(expect.any(Number))
    expect((await client.ask('slotsUpdatesSubscribe')).result).toEqual(expect.any(Number))
  })

  it('ends a subscription that costs more than the plan allows and keeps the socket', async () => {
    const poor = await stage.connect(stage.bundle.issue({ plan: 'slow' }).token)
    const errors: unknown[] = []
    poor.socket.on('message', (message) => {
      const { id, error } = JSON.parse(String(message))
      if (id === null) errors.push(error)
    })
    const [id, other] = [await poor.subscribe('slot'), await client.subscribe('slot')]
    expect(other).toBe(id)
    const before = client.of(id).length
    const data = { reason: 'notification-bytes', subscription: id }
    for (let slot = 0; slot < 20; slot++) stage.step()
    await until(() => errors.length > 0, 'the end of the subscription')
    expect(errors).toMatchObject([{ code: -32429, data }])
    expect(await poor.ask('slotUnsubscribe', [id])).toMatchObject({ error: { code: -32602 } })
    expect(await poor.ask('getVersion')).toHaveProperty('result')
    await client.upTo(id, before + 20)
    await client.ask('slotUnsubscribe', [id])
  })
})
