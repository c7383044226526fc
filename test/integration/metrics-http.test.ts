// Tests REST, health, scraping and JSON-RPC of the metrics service over a real endpoint.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { expectDescribed } from '../testkit/api-schemas.ts'
import { HandClock } from '../testkit/fake-execution.ts'
import { expectShape } from '../testkit/golden.ts'
import { Listener, openService, type Service } from '../testkit/metrics-service.ts'
import { findTool, lint } from '../testkit/promtool.ts'
import { until } from '../testkit/until.ts'

let service: Service

beforeAll(async () => {
  service = await openService()
  for (let number = 1; number <= 200; number++) service.execution.run(number)
})

afterAll(() => service.running.stop())

const get = (path: string, init?: RequestInit) => fetch(service.origin + path, init)
const readJson = async (path: string) => JSON.parse(await (await get(path)).text())
const post = async (body: string) => {
  const response = await get('/', { method: 'POST', body })
  const text = await response.text()
  return { status: response.status, body: text === '' ? null : JSON.parse(text) }
}

describe('REST', () => {
  test.each([
    ['/v1/tps', 'metrics/tps'],
    ['/v1/contention', 'metrics/contention'],
    ['/v1/status', 'metrics/status'],
    ['/v1/blocks/lifecycle', 'metrics/lifecycles'],
    ['/v1/blocks/200/lifecycle', 'metrics/lifecycle'],
    ['/health', 'metrics/health'],
    ['/ready', 'metrics/ready'],
  ])('GET %s has the shape of the spec, with CORS', async (path, golden) => {
    const response = await get(path)
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('application/json')
    expect(response.headers.get('access-control-allow-origin')).toBe('*')
    expectShape(golden, await response.json())
  })

  test.each([
    ['/v1/blocks/0/lifecycle', 404, 'block not found'],
    ['/v1/blocks/18446744073709551615/lifecycle', 404, 'block not found'],
    ['/v1/blocks/18446744073709551616/lifecycle', 400, 'invalid block number'],
    ['/v1/blocks/-1/lifecycle', 400, 'invalid block number'],
    ['/v1/blocks/1e30/lifecycle', 400, 'invalid block number'],
    ['/v1/blocks/abc/lifecycle', 400, 'invalid block number'],
    ['/v1/nothing', 404, 'not found'],
    ['/v2/tps', 404, 'not found'],
  ])('GET %s is %d, as JSON', async (path, status, message) => {
    const response = await get(path)
    expect(response.status).toBe(status)
    const body = await response.json()
    expectShape('metrics/error', body)
    expect(body).toEqual({ error: message })
  })

  test('a wrong verb is 405 with Allow', async () => {
    const response = await get('/v1/tps', { method: 'POST', body: '{}' })
    expect(response.status).toBe(405)
    expect(response.headers.get('allow')).toContain('GET')
    expectShape('metrics/error', await response.json())
  })

  test('a plain GET on a WebSocket path is 426', async () => {
    for (const path of ['/', '/v1/ws']) expect((await get(path)).status).toBe(426)
  })

  test('answers preflights and HEAD', async () => {
    const preflight = await get('/v1/tps', { method: 'OPTIONS' })
    expect(preflight.status).toBe(204)
    expect(preflight.headers.get('access-control-allow-methods')).toContain('POST')
    const head = await get('/v1/tps', { method: 'HEAD' })
    expect([head.status, await head.text()]).toEqual([200, ''])
  })
})

describe('GET /v1/blocks and /v1/top', () => {
  test('lists the newest blocks, oldest first, in one answer or many slices', async () => {
    const few = await readJson('/v1/blocks?last=3')
    expectShape('metrics/blocks', few)
    const numbers = (list: { block_number: number }[]) => list.map((row) => row.block_number)
    expect(numbers(few.blocks)).toEqual([198, 199, 200])
    const all = await readJson('/v1/blocks')
    expect(all.blocks).toHaveLength(200)
    expect(all.blocks.slice(-3)).toEqual(few.blocks)
    const contention = await readJson('/v1/contention')
    for (const [name, value] of Object.entries(few.blocks[2]))
      if (name !== 'tps') expect([name, value]).toEqual([name, contention[name]])
    const { tps } = await readJson('/v1/tps')
    expect(few.blocks[2].tps).toBe(tps)
  })

  test('streams the largest answer whole', async () => {
    const long = await openService()
    try {
      for (let number = 1; number <= 3100; number++) long.execution.run(number)
      const response = await fetch(`${long.origin}/v1/blocks?last=3000`)
      const { blocks } = JSON.parse(await response.text())
      expect(blocks).toHaveLength(3000)
      expect([blocks[0].block_number, blocks[2999].block_number]).toEqual([101, 3100])
      expect(response.headers.get('content-encoding')).toBe('gzip')
      const headers = { 'accept-encoding': 'identity' }
      const plain = await fetch(`${long.origin}/v1/blocks?last=3000`, { headers })
      expect([plain.headers.get('content-encoding'), plain.headers.get('vary')]).toEqual([
        null,
        'accept-encoding',
      ])
      expect(JSON.parse(await plain.text())).toEqual({ blocks })
    } finally {
      await long.running.stop()
    }
  })

  test.each(['?last=0', '?last=3001', '?last=', '?last=x', '?last=1&last=2'])(
    'refuses %s with 400 and the reason',
    async (query) => {
      const response = await get(`/v1/blocks${query}`)
      const { error } = JSON.parse(await response.text())
      expect([response.status, error]).toEqual([400, expect.stringMatching(/^last /)])
    },
  )

  test('serves the newest TopAccesses', async () => {
    const body = await readJson('/v1/top')
    expectShape('metrics/top', body)
    expect(body).toEqual(JSON.parse(service.events.latest('TopAccesses')!.payload.toString()))
  })

  test('answers 404 on /v1/top and an empty list before the first block', async () => {
    const fresh = await openService()
    try {
      const top = await fetch(`${fresh.origin}/v1/top`)
      expect([top.status, await top.json()]).toEqual([404, { error: 'no top accesses yet' }])
      const blocks = await fetch(`${fresh.origin}/v1/blocks`)
      expect([blocks.status, await blocks.json()]).toEqual([200, { blocks: [] }])
    } finally {
      await fresh.running.stop()
    }
  })
})

describe('POST /', () => {
  test('answers the example of the spec', async () => {
    const { status, body } = await post(
      '{"jsonrpc":"2.0","method":"eth_getBlockByNumber","params":["latest",false],"id":1}',
    )
    expect(status).toBe(200)
    expect(body).toMatchObject({ jsonrpc: '2.0', id: 1, result: { number: '0xc8' } })
    expectShape('metrics/rpc-block', body.result)
  })

  test.each([
    ['{', -32700],
    ['[]', -32600],
    ['1', -32600],
    ['{"jsonrpc":"2.0","id":1}', -32600],
    ['{"jsonrpc":"2.0","method":"eth_call","id":1}', -32601],
    ['{"jsonrpc":"2.0","method":"eth_getBlockByNumber","params":["pending",true],"id":1}', -32602],
    ['{"jsonrpc":"2.0","method":"eth_getBlockByNumber","params":[1e30],"id":1}', -32602],
  ])('answers %s with %d under HTTP 200', async (text, code) => {
    const { status, body } = await post(text)
    expect([status, body.error.code]).toEqual([200, code])
    expectShape('metrics/rpc-error', body)
  })

  test('answers an unknown method as the spec does', async () => {
    const { body } = await post('{"jsonrpc":"2.0","method":"nope","id":"x"}')
    expect(body).toEqual({
      jsonrpc: '2.0',
      error: { code: -32601, message: 'Method not found' },
      id: 'x',
    })
  })

  test('answers a batch in order, without its notifications', async () => {
    const { body } = await post(
      '[{"jsonrpc":"2.0","method":"eth_chainId","id":1},' +
        '{"jsonrpc":"2.0","method":"eth_chainId"},' +
        '7,{"jsonrpc":"2.0","method":"net_version","id":2}]',
    )
    expect(body).toMatchObject([
      { result: '0x4eaf', id: 1 },
      { error: { code: -32600 }, id: null },
      { result: '20143', id: 2 },
    ])
  })

  test('reads long batches one after the other, each with its own answers', async () => {
    const batch = (first: number) =>
      Array.from({ length: 80 }, (_, index) => {
        return { jsonrpc: '2.0', method: 'eth_chainId', id: first + index }
      })
    const firsts = Array.from({ length: 24 }, (_, index) => 1_000 * index)
    const answers = await Promise.all(
      firsts.map(async (first) => {
        const { body } = await post(JSON.stringify(batch(first)))
        return body.map(({ id }: { id: number }) => id)
      }),
    )
    expect(answers).toEqual(firsts.map((first) => batch(first).map(({ id }) => id)))
  })

  test('answers a lone notification with an empty body', async () => {
    expect(await post('{"jsonrpc":"2.0","method":"eth_chainId"}')).toEqual({
      status: 200,
      body: null,
    })
  })

  test('rejects a body that is too long', async () => {
    expect((await post(' '.repeat(60_000))).status).toBe(413)
  })
})

describe('/metrics', () => {
  test('serves text 0.0.4 and OpenMetrics by Accept, gzipped by Accept-Encoding', async () => {
    const text = await get('/metrics')
    expect(text.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    expect(text.headers.get('content-encoding')).toBe('gzip')
    expect(text.headers.get('access-control-allow-origin')).toBeNull()
    const open = await get('/metrics', {
      headers: {
        accept: 'application/openmetrics-text;version=1.0.0',
        'accept-encoding': 'gzip;q=0, identity',
      },
    })
    expect(open.headers.get('content-type')).toContain('application/openmetrics-text')
    expect(open.headers.get('content-encoding')).toBeNull()
    expect((await open.text()).endsWith('# EOF\n')).toBe(true)
  })

  test('has the series of the stream and of the source', async () => {
    service.execution.gap(1, 2)
    const body = await (await get('/metrics')).text()
    for (const name of [
      'sluice_source_event_age_seconds',
      'sluice_source_gaps_total 1',
      'sluice_ws_clients 0',
      'sluice_frames_sent_total{kind="TPS"} 0',
      'sluice_frame_delivery_seconds_count',
      'sluice_resume_buffer_frames',
    ])
      expect(body).toContain(`\n${name}`)
  })

  const promtool = findTool('promtool')
  test.skipIf(promtool === null)('has no promtool lint findings (skipped without it)', async () => {
    expect(lint(promtool!, await (await get('/metrics')).text())).toBe('')
  })
})

test('GET /ready is 503 with the failed check while a gateway takes no callers', async () => {
  const checks = [
    { name: 'components', ok: true },
    { name: 'events', ok: false, age_ms: 31_000 },
  ]
  const waiting = await openService({ deps: { ready: () => ({ ready: false, checks }) } })
  const response = await fetch(`${waiting.origin}/ready`)
  const body = await response.json()
  expect([response.status, body]).toEqual([503, { ready: false, checks }])
  expectDescribed('get', '/ready', { status: 503, body })
  await waiting.running.stop()
})

describe('a silent source', () => {
  test('is degraded after 10 s, 503 at 30 s, without streams and REST 2 s later until the next event', async () => {
    const clock = new HandClock()
    const said: string[] = []
    const log = { ...silentLog, warn: (line: string) => said.push(line) }
    const silent = await openService({ clock, deps: { log } })
    const read = async (path: string) => {
      const response = await fetch(silent.origin + path)
      return [response.status, await response.json()]
    }
    try {
      silent.execution.run(1)
      const listener = new Listener(`${silent.ws}/v1/ws`)
      await listener.has(1)
      expect(await read('/v1/status')).toMatchObject([200, { status: 'healthy' }])
      clock.advance(10_001)
      expect(await read('/v1/status')).toMatchObject([200, { status: 'degraded' }])
      expect(await read('/health')).toMatchObject([200, { result: { healthy: true } }])
      clock.advance(20_000)
      expect(await read('/health')).toEqual([
        503,
        { jsonrpc: '2.0', result: { healthy: false, number: 1, last_event_age_secs: 30 } },
      ])
      await until(() => said.some((line) => line.includes('draining')), 'the drain')
      expect((await read('/health'))[0]).toBe(503)
      clock.advance(2000)
      await until(() => listener.closed !== null, 'the end of the stream')
      expect(listener.closed).toBe(1001)
      expect(silent.calls).toEqual({ restarts: 1, exits: [] })
      const statusOf = async (path: string, init: RequestInit = {}) =>
        (await fetch(silent.origin + path, init)).status
      const closed = ['/health', '/v1/status', '/v1/tps', '/v1/blocks', '/v1/ws']
      for (const path of closed) expect([path, await statusOf(path)]).toEqual([path, 503])
      expect(await statusOf('/', { method: 'POST', body: '{}' })).toBe(503)
      const open = ['/metrics', '/ready', '/live', '/openapi.json']
      for (const path of open) expect([path, await statusOf(path)]).toEqual([path, 200])
      expect(await (await fetch(`${silent.origin}/metrics`)).text()).toContain(
        'sluice_metrics_open 0',
      )
      const refused = new Listener(`${silent.ws}/v1/ws`)
      await until(() => refused.refused !== null, 'the refusal of a new stream')
      expect(refused.refused?.status).toBe(503)
      silent.execution.run(2)
      clock.advance(1)
      await until(async () => (await statusOf('/v1/tps')) === 200, 'an open endpoint')
      expect((await read('/health'))[0]).toBe(200)
      expect(await read('/v1/status')).toMatchObject([200, { status: 'healthy', block_number: 2 }])
    } finally {
      await silent.running.stop()
    }
  })

  test('ends the process with 75 when onStale is exit', async () => {
    const clock = new HandClock()
    const silent = await openService({ clock, section: { onStale: 'exit' } })
    await until(() => {
      clock.advance(5000)
      return silent.calls.exits.length > 0
    }, 'the exit')
    expect(silent.calls).toEqual({ restarts: 0, exits: [75] })
    await silent.running.stop()
  })
})
