// Tests the cost limits per client address of the metrics endpoint: bounded answers, budget, 429.
import { once } from 'node:events'
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { batchBytesMax } from '../../src/products/metrics/rpc.ts'
import { HandClock } from '../testkit/fake-execution.ts'
import { blockBatch, sendFrom, upgradeFrom } from '../testkit/from-address.ts'
import { openService, type Service, type ServiceOptions } from '../testkit/metrics-service.ts'
import { until } from '../testkit/until.ts'

const blockBytes = 300_000
/** More than the errors of a batch have. */
const errorBytes = 20_000
const post = (body: string) => ({ method: 'POST', body })

describe('the answer of POST /', () => {
  let service: Service

  beforeAll(async () => {
    service = await openService()
    service.execution.run(1, { textBytes: 6_000_000 })
    service.execution.run(2, { textBytes: blockBytes })
  })
  afterAll(() => service.running.stop())

  test('has at most 4 MiB for a batch; calls beyond get -32005', async () => {
    const { status, body } = await sendFrom('127.0.0.1', service.origin, post(blockBatch(100)))
    expect(status).toBe(200)
    expect(body.length).toBeLessThan(batchBytesMax + errorBytes)
    const answers = JSON.parse(body) as { id: number; result?: unknown; error?: { code: number } }[]
    expect(answers.map(({ id }) => id)).toEqual([...Array(100).keys()])
    const results = answers.filter(({ result }) => result !== undefined)
    expect(results.length).toBe(Math.floor(batchBytesMax / blockBytes))
    const errors = answers.slice(results.length)
    expect(new Set(errors.map(({ error }) => error?.code))).toEqual(new Set([-32005]))
  })

  test('contains a single block whole, however long', async () => {
    const call = { jsonrpc: '2.0', id: 7, method: 'eth_getBlockByNumber', params: ['0x1', true] }
    const { status, body } = await sendFrom('127.0.0.1', service.origin, post(JSON.stringify(call)))
    expect(status).toBe(200)
    expect(body.length).toBeGreaterThan(6_000_000)
    expect(JSON.parse(body)).toMatchObject({ id: 7, result: { number: '0x1' } })
  })

  test('contains one block of a batch, however long, and no second one', async () => {
    const call = { jsonrpc: '2.0', method: 'eth_getBlockByNumber', params: ['0x1', true] }
    const calls = [1, 2, 3].map((id) => ({ ...call, id }))
    const { body } = await sendFrom('127.0.0.1', service.origin, post(JSON.stringify(calls)))
    expect(JSON.parse(body)).toMatchObject([
      { id: 1, result: { number: '0x1' } },
      { id: 2, error: { code: -32005 } },
      { id: 3, error: { code: -32005 } },
    ])
  })

  test('states its length when it is short', async () => {
    const call = '{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}'
    const { headers, body } = await sendFrom('127.0.0.1', service.origin, post(call))
    expect(headers['content-length']).toBe(String(body.length))
  })
})

test('a body that is too long to be read costs no more than one that is read', async () => {
  const service = await openService({ addressLimits: { workMsPerSecond: 1, workMsBurst: 100 } })
  const { hostname, port } = new URL(service.origin)
  const socket = connect(Number(port), hostname)
  socket.write('POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 999999999\r\n\r\n')
  const [answer] = await once(socket, 'data')
  expect(String(answer)).toMatch(/^HTTP\/1.1 4\d\d /)
  expect((await sendFrom('127.0.0.1', `${service.origin}/v1/tps`)).status).not.toBe(429)
  socket.destroy()
  await service.running.stop()
})

// A refusal is held back for a second, which all of these wait for together.
describe.concurrent('an address that has used up its budget', () => {
  const services: Service[] = []
  afterAll(async () => {
    for (const service of services) await service.running.stop()
  })

  /** A service at which 127.0.0.2 has nothing left for a long time. */
  async function exhausted(options: ServiceOptions = {}): Promise<Service> {
    const service = await openService({
      addressLimits: { workMsPerSecond: 1, workMsBurst: 1, bytesPerSecond: 1024, bytesBurst: 1024 },
      ...options,
    })
    services.push(service)
    service.execution.run(1, { textBytes: blockBytes })
    const headers = { 'x-token': 'any' }
    // Three blocks are the bytes of a quarter of an hour.
    const { status } = await sendFrom('127.0.0.2', service.origin, {
      ...post(blockBatch(3)),
      headers,
    })
    expect(status).toBe(200)
    return service
  }

  test.each([
    ['GET', '/v1/tps'],
    ['GET', '/v1/contention'],
    ['GET', '/v1/status'],
    ['GET', '/v1/blocks/lifecycle'],
    ['GET', '/v1/blocks/1/lifecycle'],
    ['GET', '/'],
    ['GET', '/nothing/here'],
    ['HEAD', '/v1/tps'],
    ['OPTIONS', '/v1/tps'],
    ['PUT', '/v1/tps'],
  ])('gets 429 for %s %s, others are answered', async (method, path) => {
    const service = await exhausted()
    const refused = await sendFrom('127.0.0.2', service.origin + path, { method })
    expect(refused.status).toBe(429)
    expect(Number(refused.headers['retry-after'])).toBeGreaterThanOrEqual(1)
    if (method !== 'HEAD') expect(JSON.parse(refused.body).error).toContain('budget')
    expect((await sendFrom('127.0.0.1', service.origin + path, { method })).status).not.toBe(429)
    expect(service.refused.metrics).toBe(1)
  })

  test.each(['open', 'token'] as const)('gets JSON-RPC -32429 on POST /, auth %s', async (auth) => {
    const principal = {} as never
    const gate = {
      admit: () => principal,
      readmits: () => true,
      isExpired: () => false,
      lease: () => () => {},
    }
    const service = await exhausted({ section: { auth }, deps: { gate } })
    const { status, headers, body } = await sendFrom('127.0.0.2', service.origin, post('{}'))
    expect(status).toBe(429)
    expect(Number(headers['retry-after'])).toBeGreaterThanOrEqual(1)
    expect(JSON.parse(body)).toMatchObject({ jsonrpc: '2.0', error: { code: -32429 }, id: null })
  })

  test('gets 429 for a WebSocket upgrade', async () => {
    const service = await exhausted()
    expect((await upgradeFrom('127.0.0.2', `${service.ws}/v1/ws`)).status).toBe(429)
    const other = await upgradeFrom('127.0.0.1', `${service.ws}/v1/ws`)
    expect(other.status).toBe(101)
    other.socket.terminate()
  })

  test('can still use /health and /metrics at a limited rate', async () => {
    const service = await exhausted()
    const paths = Array.from({ length: 60 }, (_, index) => (index % 2 ? '/health' : '/metrics'))
    const answers = await Promise.all(
      paths.map((path) => sendFrom('127.0.0.2', service.origin + path)),
    )
    const served = answers.filter(({ status }) => status === 200).length
    expect(served).toBeGreaterThanOrEqual(10)
    expect(served).toBeLessThan(60)
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 429]))
  })

  test('can still use /health by HEAD, as balancers do', async () => {
    const service = await exhausted()
    const head = { method: 'HEAD' }
    expect((await sendFrom('127.0.0.2', `${service.origin}/health`, head)).status).toBe(200)
  })

  test('loses a socket that continues to send, with 1013', async () => {
    const service = await openService({
      addressLimits: { workMsPerSecond: 1, workMsBurst: 5 },
    })
    services.push(service)
    const { socket } = await upgradeFrom('127.0.0.2', `${service.ws}/v1/ws`)
    let code = 0
    socket.on('close', (closed) => {
      code = closed
    })
    for (let count = 0; count < 1000; count++) socket.send('{"subscribe":["TPS"]}')
    await until(() => code !== 0, 'the close')
    expect(code).toBe(1013)
    expect(service.refused.metrics).toBeGreaterThan(0)
  })

  test('gets delayed refusals, so that an immediate retry gains nothing', async () => {
    const service = await exhausted()
    const beganMs = performance.now()
    let refusals = 0
    while (performance.now() - beganMs < 1_500) {
      const { status } = await sendFrom('127.0.0.2', `${service.origin}/v1/tps`)
      if (status === 429) refusals++
    }
    expect(refusals).toBeGreaterThan(0)
    // By the time that they took in all: the last one began within the loop and may end late.
    expect((performance.now() - beganMs) / refusals).toBeGreaterThan(150)
  })

  test('is refused a long body unread, and keeps what it has for short ones', async () => {
    const clock = new HandClock()
    // A whole batch takes half of it.
    const service = await openService({ clock, addressLimits: { workMsBurst: 28 } })
    services.push(service)
    service.execution.run(1, { textBytes: blockBytes })
    const send = async (calls: number) =>
      (await sendFrom('127.0.0.2', service.origin, post(blockBatch(calls)))).status
    expect(await send(100)).toBe(200)
    const refused = await Promise.all(Array.from({ length: 40 }, () => send(100)))
    expect(new Set(refused)).toEqual(new Set([429]))
    expect(service.refused.metrics).toBe(40)
    expect(await send(3)).toBe(200)
    clock.advance(1_000)
    expect(await send(100)).toBe(200)
  })

  test('loses its connection when too many of its refusals wait', async () => {
    const service = await exhausted()
    const answers = await Promise.all(
      Array.from({ length: 100 }, () => sendFrom('127.0.0.2', `${service.origin}/v1/tps`)),
    )
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([429]))
    const closed = answers.filter(({ headers }) => headers.connection === 'close')
    expect(closed.length).toBeGreaterThan(0)
  })
})

describe('a resume', () => {
  test('is charged by the frames that it requests', async () => {
    const service = await openService({
      addressLimits: { bytesBurst: 200_000, bytesPerSecond: 1024 },
      section: { connectionsPerAddress: 0 },
    })
    for (let number = 1; number <= 100; number++) service.execution.run(number, { padBytes: 1000 })
    const upgrade = (query: string) => upgradeFrom('127.0.0.2', `${service.ws}/v1/ws${query}`)
    const first = service.events.oldestSeq
    const statuses: number[] = []
    for (let count = 0; count < 4; count++) {
      const { status, socket } = await upgrade(`?resume_from=${first}`)
      statuses.push(status)
      socket.terminate()
    }
    expect(statuses[0]).toBe(101)
    expect(statuses).toContain(429)
    await service.running.stop()
  })
})

describe('connections of one IPv6 /64', () => {
  test('are counted together', async () => {
    const service = await openService({
      section: { connectionsPerAddress: 1 },
      deps: { trustedProxies: ['127.0.0.0/8'] },
    })
    const from = (address: string) =>
      upgradeFrom('127.0.0.1', `${service.ws}/v1/ws`, { 'x-forwarded-for': address })
    const opened = await from('2001:db8:0:1::1')
    expect(opened.status).toBe(101)
    expect((await from('2001:db8:0:1:ffff::2')).status).toBe(429)
    const other = await from('2001:db8:0:2::1')
    expect(other.status).toBe(101)
    for (const { socket } of [opened, other]) socket.terminate()
    await service.running.stop()
  })
})
