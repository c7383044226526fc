// The gRPC endpoint: tokens, refusals, TLS, limits, shutdown.
import { Metadata } from '@grpc/grpc-js'
import { afterEach, describe, expect, it } from 'vitest'
import { builtInPlans, standardPlan } from '../../src/customers/subscriptions/plans.ts'
import { expectShape } from '../testkit/golden.ts'
import {
  call,
  callBytes,
  codec,
  GrpcStage,
  Subscription,
  withToken,
} from '../testkit/grpc-stage.ts'
import { rawCall } from '../testkit/raw-grpc.ts'
import { SyntheticSolana } from '../testkit/synthetic-solana.ts'
import { until, untilWithin } from '../testkit/until.ts'

let stage: GrpcStage

afterEach(async () => {
  await stage.close()
})

const identity = (bytes: Buffer) => bytes
const slots = Buffer.from('12030a0161', 'hex')

function metadataOf(headers: Readonly<Record<string, string>>): Metadata {
  const metadata = new Metadata()
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value)
  return metadata
}

describe('tokens', () => {
  it('rejects a call without a valid token with PermissionDenied, unary and stream', async () => {
    stage = await GrpcStage.open()
    const { token } = stage.provision()
    const suspended = stage.provision()
    const indexer = stage.provision({ products: ['indexer'] })
    const elsewhere = stage.provision({ cidrs: ['10.0.0.0/8'] })
    stage.store.suspend(suspended.subscription.id, { who: 'test' })
    stage.directory.refresh()
    const wrong: Record<string, string>[] = [
      {},
      { 'x-token': '' },
      { 'x-token': 'nonsense' },
      { 'x-token': `${token},${token}` },
      { 'x-token': `${token} ${token}` },
      { 'x-token': `slu_${'a'.repeat(38)}` },
      { 'x-token': suspended.token },
      { 'x-token': indexer.token },
      { 'x-token': elsewhere.token },
      { 'x-api-key': token },
      { authorization: token },
      { authorization: `Basic ${token}` },
      { authorization: 'Bearer ' },
    ]
    const client = stage.client()
    for (const headers of wrong) {
      const answer = await call(client, 'GetVersion', {}, metadataOf(headers))
      expect([headers, answer.code]).toEqual([headers, 7])
      const isSent = headers['x-token'] || /^bearer ./i.test(headers.authorization ?? '')
      expect(answer.details).toContain(isSent ? 'the token is not valid' : 'send a token in')
      const subscription = new Subscription(client, metadataOf(headers))
      subscription.askBytes(slots)
      await until(() => subscription.status !== null, 'a status')
      expect([headers, subscription.status?.code]).toEqual([headers, 7])
    }
    expect(
      await stage.meter('sluice_grpc_requests_total{method="Subscribe",outcome="refused"}'),
    ).toBe(wrong.length)
  })

  it('takes x-token and Bearer, in any case, the first present deciding', async () => {
    stage = await GrpcStage.open()
    const { token } = stage.provision()
    const client = stage.client()
    for (const headers of [
      { 'x-token': token },
      { authorization: `Bearer ${token}` },
      { authorization: `bEARER ${token}` },
      { 'x-token': token, authorization: 'Bearer wrong' },
      { 'x-token': '', authorization: `Bearer ${token}` },
    ])
      expect((await call(client, 'GetVersion', {}, metadataOf(headers))).code).toBe(0)
    const both = { 'x-token': 'wrong', authorization: `Bearer ${token}` }
    expect((await call(client, 'GetVersion', {}, metadataOf(both))).code).toBe(7)
  })

  it('refuses with trailers only, without reading the message', async () => {
    stage = await GrpcStage.open()
    const answer = await rawCall(stage.target, { ':path': '/geyser.Geyser/GetVersion' }, null)
    expect(answer.headers['grpc-status']).toBe('7')
    expect(answer.headers[':status']).toBe(200)
    expect(answer.data).toHaveLength(0)
    expect(answer.trailers).toEqual({})
  })

  it('refuses a credential header that was sent twice', async () => {
    stage = await GrpcStage.open()
    const { token } = stage.provision()
    const path = { ':path': '/geyser.Geyser/GetVersion' }
    const twice = await rawCall(stage.target, { ...path, 'x-token': [token, token] })
    expect(twice.headers['grpc-status']).toBe('7')
    const bearer = { ...path, authorization: `Bearer ${token}` }
    expect((await rawCall(stage.target, bearer)).trailers['grpc-status']).toBe('0')
    for (const second of [`Bearer ${token}`, 'Bearer wrong', 'Basic x', '']) {
      const both = await rawCall(stage.target, bearer, null, [['authorization', second]])
      expect([second, both.headers['grpc-status']]).toEqual([second, '7'])
    }
    // The way it is sent changes nothing by itself.
    const other = await rawCall(stage.target, bearer, undefined, [['x-unused', 'y']])
    expect(other.trailers['grpc-status']).toBe('0')
    const query = await rawCall(stage.target, { ':path': `${path[':path']}?api-key=${token}` })
    expect(query.headers['grpc-status']).toBe('12')
  })

  it('ends the streams of a dead token with PermissionDenied within a second', async () => {
    stage = await GrpcStage.open()
    const chain = new SyntheticSolana()
    const dying = stage.provision()
    const living = stage.provision()
    const streams = [dying, living].map(({ token }) => {
      const subscription = new Subscription(stage.client(), withToken(token))
      subscription.askBytes(slots)
      return subscription
    })
    for (const stream of streams) await stream.settled()
    stage.publish(chain.next())
    await until(() => streams.every((stream) => stream.of('slot').length > 0), 'updates')
    stage.store.rotate(dying.subscription.id, { graceMs: 0 }, { who: 'test' })
    await untilWithin(2_000, () => streams[0]!.status !== null, 'the end of the stream')
    expect(streams[0]!.status?.code).toBe(7)
    const before = streams[1]!.updates.length
    stage.publish(chain.next())
    await until(() => streams[1]!.updates.length > before, 'the other stream goes on')
    expect(streams[1]!.status).toBeNull()
  })
})

describe('the methods that need no chain', () => {
  it('answers GetVersion, Ping and health, and UNAVAILABLE for the rest', async () => {
    stage = await GrpcStage.open({ hub: null })
    const { token } = stage.provision()
    const client = stage.client()
    const version = await call(client, 'GetVersion', {}, withToken(token))
    expectShape('grpc/version', JSON.parse(version.value.version))
    expect(JSON.parse(version.value.version).version).toMatchObject({
      package: 'sluice',
      version: '0.0.0',
      proto: '12.6.0',
    })
    const pong = await call(client, 'Ping', { count: -7 }, withToken(token))
    expect(pong.value.count).toBe(-7)
    for (const method of ['GetSlot', 'GetBlockHeight', 'GetLatestBlockhash', 'SubscribeReplayInfo'])
      expect((await call(client, method, {}, withToken(token))).code).toBe(14)
    const subscription = new Subscription(client, withToken(token))
    await until(() => subscription.status !== null, 'a status')
    expect(subscription.status?.code).toBe(14)
  })

  it('answers grpc.health.v1 without a token', async () => {
    stage = await GrpcStage.open()
    const client = stage.client()
    const check = (service: string) =>
      callBytes(
        client,
        '/grpc.health.v1.Health/Check',
        Buffer.from(codec.encode('grpc.health.v1.HealthCheckRequest', { service })),
        new Metadata(),
        (answer) => codec.decode('grpc.health.v1.HealthCheckResponse', answer),
      )
    expect((await check('')).value.status).toBe(1)
    expect((await check('geyser.Geyser')).value.status).toBe(1)
    expect((await check('nobody')).code).toBe(5)
    const list = await callBytes(
      client,
      '/grpc.health.v1.Health/List',
      Buffer.alloc(0),
      new Metadata(),
      (answer) => codec.decode('grpc.health.v1.HealthListResponse', answer),
    )
    expect(Object.keys(list.value.statuses)).toEqual(['', 'geyser.Geyser'])
    const watch = client.makeServerStreamRequest(
      '/grpc.health.v1.Health/Watch',
      identity,
      (answer) => codec.decode<{ status: number }>('grpc.health.v1.HealthCheckResponse', answer)!,
      Buffer.alloc(0),
    )
    const seen: number[] = []
    watch.on('data', ({ status }: { status: number }) => seen.push(status))
    watch.on('error', () => {})
    await until(() => seen.length === 1, 'the first status')
    const stopping = stage.running.stop()
    await until(() => seen.length === 2, 'the last status')
    expect(seen).toEqual([1, 2])
    await stopping
  })

  it('answers that SubscribeDeshred is coming soon, and UNIMPLEMENTED to unknown methods', async () => {
    stage = await GrpcStage.open()
    const { token } = stage.provision()
    const path = '/geyser.Geyser/SubscribeDeshred'
    const subscription = new Subscription(stage.client(), withToken(token), path)
    await until(() => subscription.status !== null, 'a status')
    expect(subscription.status).toMatchObject({ code: 12, details: 'coming soon' })
    const other = await callBytes(
      stage.client(),
      '/geyser.Geyser/Nothing',
      Buffer.alloc(0),
      withToken(token),
      identity,
    )
    expect(other.code).toBe(12)
  })
})

describe('budgets', () => {
  it('answers RESOURCE_EXHAUSTED over the rate, and when to retry', async () => {
    const slow = { ...standardPlan, creditsPerSecond: 1, burst: 3 }
    stage = await GrpcStage.open({ plans: { ...builtInPlans, standard: slow } })
    const { token } = stage.provision()
    const client = stage.client()
    const again = () => call(client, 'GetVersion', {}, withToken(token))
    const startMs = performance.now()
    let [calls, refused] = [0, await again()]
    for (; refused.code === 0; calls++) refused = await again()
    // A slow machine regains a credit a second.
    expect(calls).toBeGreaterThanOrEqual(3)
    expect(calls).toBeLessThanOrEqual(4 + (performance.now() - startMs) / 1_000)
    expect(refused).toMatchObject({ code: 8, details: 'rate limit exceeded' })
    const waitMs = Number(refused.metadata.get('grpc-retry-pushback-ms')[0])
    expect(waitMs).toBeGreaterThan(0)
    expect(waitMs).toBeLessThanOrEqual(1_000)
    const [details] = refused.metadata.get('grpc-status-details-bin')
    expect((details as Buffer).includes('google.rpc.RetryInfo')).toBe(true)
    expect(await stage.meter('sluice_quota_refused_total{door="grpc"}')).toBe(1)
    await until(async () => (await again()).code === 0, 'the rate to recover')
  })

  it('pushes back no longer than a timer of clients can wait', async () => {
    const small = { ...standardPlan, creditsPer30Days: 1 }
    stage = await GrpcStage.open({ plans: { ...builtInPlans, standard: small } })
    const { token } = stage.provision()
    const client = stage.client()
    const again = () => call(client, 'GetVersion', {}, withToken(token))
    let refused = await again()
    for (let calls = 1; refused.code === 0 && calls < 10; calls++) refused = await again()
    expect(refused.code).toBe(8)
    expect(refused.metadata.get('grpc-retry-pushback-ms')).toEqual([String(2 ** 31 - 1)])
  })

  it('allows the streams of the plan and no more, and frees a permit at once', async () => {
    const limited = { ...builtInPlans, standard: { ...standardPlan, streams: 2 } }
    stage = await GrpcStage.open({ plans: limited })
    const { token } = stage.provision()
    const client = stage.client()
    const open = () => {
      const subscription = new Subscription(client, withToken(token))
      subscription.askBytes(slots)
      return subscription
    }
    const [first, second] = [open(), open()]
    await until(async () => (await stage.meter('sluice_grpc_streams')) === 2, 'two streams')
    const third = open()
    await until(() => third.status !== null, 'a refusal')
    expect(third.status).toMatchObject({ code: 8, details: 'the plan allows 2 streams' })
    first.stream.cancel()
    await until(async () => (await stage.meter('sluice_grpc_streams')) === 1, 'a place')
    const fourth = open()
    await until(async () => (await stage.meter('sluice_grpc_streams')) === 2, 'the place taken')
    expect(fourth.status).toBeNull()
    expect(second.status).toBeNull()
  })
})
