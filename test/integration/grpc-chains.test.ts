// Which chain a subscription's streams read, and what happens to them when that chain goes down.

import { Metadata } from '@grpc/grpc-js'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { publishUpdate } from '../../src/streams/geyser/hub.ts'
import {
  call,
  callBytes,
  codec,
  GrpcStage,
  Subscription,
  TestChain,
  withToken,
} from '../testkit/grpc-stage.ts'
import { SyntheticSolana } from '../testkit/synthetic-solana.ts'
import { until } from '../testkit/until.ts'

let stage: GrpcStage
let own: TestChain

beforeEach(async () => {
  own = new TestChain()
  stage = await GrpcStage.open({
    chainOf({ upstream }) {
      if (upstream === 'nowhere') return null
      return upstream === 'acme' ? own : stage.chain
    },
  })
})

afterEach(() => stage.close())

const bound = (upstream: string) =>
  stage.provision({ products: ['bundle', 'dedicated-node'], upstream }).token

function open(token: string): Subscription {
  const subscription = new Subscription(stage.client(), withToken(token))
  subscription.ask({ blocksMeta: { m: {} } })
  return subscription
}

const slotsOf = (subscription: Subscription) =>
  subscription.of('blockMeta').map(({ slot }) => Number(slot))

describe('a dedicated subscription', () => {
  it('is the only one to read its own chain, by stream and unary', async () => {
    const token = stage.provision().token
    const dedicated = bound('acme')
    const streams = [open(token), open(dedicated)]
    for (const stream of streams) await stream.settled()
    stage.publish(new SyntheticSolana({ firstSlot: 10 }).next())
    for (const update of new SyntheticSolana({ firstSlot: 5_000 }).next())
      publishUpdate(own.hub, update)
    await until(() => streams.every((stream) => stream.of('blockMeta').length > 0), 'metas')
    expect(streams.map(slotsOf)).toEqual([[10], [5_000]])
    const client = stage.client()
    const slot = async (of: string) =>
      Number((await call(client, 'GetSlot', {}, withToken(of))).value.slot)
    expect(await slot(token)).toBe(10)
    expect(await slot(dedicated)).toBe(5_000)
  })

  it('is UNAVAILABLE while its set has no chain, also when others have one', async () => {
    stage.publish(new SyntheticSolana().next())
    const token = bound('nowhere')
    const stream = open(token)
    await until(() => stream.status !== null, 'a status')
    expect(stream.status).toMatchObject({ code: 14, details: 'no chain is attached' })
    expect((await call(stage.client(), 'GetSlot', {}, withToken(token))).code).toBe(14)
  })
})

describe('a chain that goes down', () => {
  it('ends its streams with UNAVAILABLE and no others, and takes them back with from_slot', async () => {
    const chain = new SyntheticSolana({ firstSlot: 100 })
    for (const update of chain.next()) publishUpdate(own.hub, update)
    const dedicated = bound('acme')
    const streams = [open(stage.provision().token), open(dedicated)]
    for (const stream of streams) await stream.settled()
    own.turn(false)
    await until(() => streams[1]!.status !== null, 'the end of the stream')
    expect(streams[1]!.status).toMatchObject({ code: 14 })
    expect(streams[1]!.status!.details).toContain('from_slot')
    const late = open(dedicated)
    await until(() => late.status !== null, 'a refusal')
    expect(late.status?.code).toBe(14)
    expect(streams[0]!.status).toBeNull()
    expect(await stage.meter('sluice_grpc_streams_ended_total{reason="unavailable"}')).toBe(2)
    for (const update of chain.next()) publishUpdate(own.hub, update)
    own.turn(true)
    const again = new Subscription(stage.client(), withToken(dedicated))
    again.ask({ blocksMeta: { m: {} }, fromSlot: 100 })
    await until(() => again.of('blockMeta').length === 2, 'the replay')
    expect(slotsOf(again)).toEqual([100, 101])
  })

  it('is reported by the health service when it is the default chain', async () => {
    const client = stage.client()
    const request = Buffer.from(codec.encode('grpc.health.v1.HealthCheckRequest', {}))
    const decode = (bytes: Buffer) =>
      codec.decode<{ status: number }>('grpc.health.v1.HealthCheckResponse', bytes)
    const check = async () => {
      const path = '/grpc.health.v1.Health/Check'
      return (await callBytes(client, path, request, new Metadata(), decode)).value.status
    }
    const seen: number[] = []
    const watching = client.makeServerStreamRequest(
      '/grpc.health.v1.Health/Watch',
      (bytes: Buffer) => bytes,
      decode,
      request,
      new Metadata(),
    )
    watching.on('data', ({ status }: { status: number }) => seen.push(status))
    watching.on('error', () => {})
    await until(() => seen.length === 1, 'the first word')
    own.turn(false)
    expect(await check()).toBe(1)
    stage.chain!.turn(false)
    expect(await check()).toBe(2)
    stage.chain!.turn(true)
    expect(await check()).toBe(1)
    await until(() => seen.length === 3, 'both changes')
    expect(seen).toEqual([1, 2, 1])
    watching.cancel()
  })
})
