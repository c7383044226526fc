// The metrics service as a customer meets it: the built server with no configuration.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runCommand } from '../testkit/command.ts'
import { expectShape } from '../testkit/golden.ts'
import { Listener } from '../testkit/metrics-service.ts'
import { littleTraffic, onlyMetrics, type Server, startServer } from '../testkit/server.ts'
import { until } from '../testkit/until.ts'

let server: Server
let origin: string
let stream: string

beforeAll(async () => {
  server = await startServer()
  open()
})

afterAll(() => server.dispose())

function open(): void {
  const { host, port } = server.doors.metrics!
  origin = `http://${host}:${port}`
  stream = `ws://${host}:${port}/v1/ws`
}

const goldenOf: Record<string, string> = {
  TPS: 'metrics/frame-tps',
  ContentionData: 'metrics/frame-contention',
  TopAccesses: 'metrics/frame-top-accesses',
  Lifecycle: 'metrics/frame-lifecycle',
}

describe('a default start', () => {
  test('sends all four kinds in their shapes and order, without a gap', async () => {
    const listener = new Listener(stream)
    const isLive = () => listener.kinds.filter((kind) => kind === 'ContentionData').length >= 4
    await until(isLive, 'four blocks')
    for (const kind of Object.keys(goldenOf)) {
      const frames = listener.frames.filter((frame) => kind in frame)
      expect(frames.length).toBeGreaterThan(0)
      for (const frame of frames) expectShape(goldenOf[kind]!, frame)
    }
    const newest = (listener.frames[0]!.Resume as { newest: number }).newest
    const live = listener.seqs.filter((seq) => seq > newest)
    expect(live).toEqual(live.map((_, index) => newest + 1 + index))
    // Space-Saving first, contention second, of the same block's end.
    for (const [index, kind] of listener.kinds.entries())
      if (kind === 'ContentionData' && listener.frames[index]!.seq > newest)
        expect(listener.kinds.slice(0, index).lastIndexOf('TopAccesses')).toBeGreaterThan(
          listener.kinds.slice(0, index).lastIndexOf('ContentionData'),
        )
    listener.socket.terminate()
  })

  test.each([
    ['/v1/tps', 'metrics/tps'],
    ['/v1/contention', 'metrics/contention'],
    ['/v1/status', 'metrics/status'],
    ['/v1/blocks/lifecycle', 'metrics/lifecycles'],
    ['/health', 'metrics/health'],
  ])('GET %s answers in the shape of the spec', async (path, golden) => {
    const response = await fetch(origin + path)
    expect(response.status).toBe(200)
    expectShape(golden, await response.json())
  })

  test('GET /v1/blocks/:number/lifecycle answers for a tracked block', async () => {
    const status = (await (await fetch(`${origin}/v1/status`)).json()) as { block_number: number }
    const response = await fetch(`${origin}/v1/blocks/${status.block_number}/lifecycle`)
    expect(response.status).toBe(200)
    expectShape('metrics/lifecycle', await response.json())
  })

  test('POST / answers eth_getBlockByNumber with every header field', async () => {
    const ask = async (params: unknown[]) => {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_getBlockByNumber', params })
      const response = await fetch(origin, { method: 'POST', body })
      return ((await response.json()) as { result: Record<string, unknown> }).result
    }
    const block = await ask(['latest', false])
    expectShape('metrics/rpc-block', block)
    expect((await ask([block.number, true])).hash).toBe(block.hash)
  })

  test('GET /ready answers 200 once the sources of all products deliver', async () => {
    const names = ['components', 'rpc nodes', 'solana stream', 'events']
    let body: { ready: boolean; checks: { name: string; ok: boolean }[] }
    await until(async () => {
      const response = await fetch(`${origin}/ready`)
      body = (await response.json()) as typeof body
      expect(response.status).toBe(body.ready ? 200 : 503)
      return body.ready
    }, 'a ready gateway')
    expect(body!.checks.map(({ name, ok }) => [name, ok])).toEqual(
      names.map((name) => [name, true]),
    )
  })

  test('/metrics has the series of the contract', async () => {
    const body = await (await fetch(`${origin}/metrics`)).text()
    for (const name of [
      'sluice_build_info',
      'sluice_source_event_age_seconds',
      'sluice_source_gaps_total',
      'sluice_ws_clients',
      'sluice_frames_sent_total',
      'sluice_frame_delivery_seconds',
      'sluice_rpc_requests_total',
      'sluice_rpc_seconds',
      'sluice_auth_refused_total',
      'sluice_quota_refused_total',
    ])
      expect(body).toContain(`\n# TYPE ${name} `)
  })
})

test('numbers go on over a restart, and an old cursor gets a snapshot', async () => {
  const before = new Listener(stream)
  await before.has(8)
  const cursor = before.seqs.at(-1)!
  const { run } = before.frames[0]!.Resume as { run: string }
  before.socket.terminate()
  await server.stop()
  server = await startServer({ data: server.data, flags: [...onlyMetrics, ...littleTraffic] })
  open()
  for (const query of [`resume_from=${cursor}&run=${run}`, `resume_from=${cursor}`]) {
    const after = new Listener(`${stream}?${query}`)
    await until(() => after.seqs.length > 3, 'frames of the new run')
    expect(after.frames[0]).toMatchObject({ seq: 0, Resume: { mode: 'snapshot' } })
    expect((after.frames[0]!.Resume as { run: string }).run).not.toBe(run)
    expect(Math.min(...after.seqs)).toBeGreaterThan(cursor)
    after.socket.terminate()
  }
})

test('metrics.auth: token requires a token and closes sockets of a revoked one with 1008', async () => {
  const locked = await startServer({
    flags: ['--metrics.auth=token', ...onlyMetrics, ...littleTraffic],
  })
  const { host, port } = locked.doors.metrics!
  const url = `${host}:${port}`
  try {
    expect((await fetch(`http://${url}/v1/tps`)).status).toBe(401)
    expect((await fetch(`http://${url}/health`)).status).toBe(200)
    const authorization = `Bearer ${locked.token}`
    expect((await fetch(`http://${url}/v1/tps`, { headers: { authorization } })).status).toBe(200)
    const listener = new Listener(`ws://${url}/v1/ws`, [], { 'x-token': locked.token })
    await listener.has(2)
    const words = ['token', 'rotate', 'demo', '--yes', '--data', locked.data]
    expect((await runCommand(words)).code).toBe(0)
    await until(() => listener.closed !== null, 'the close')
    expect(listener.closed).toBe(1008)
  } finally {
    await locked.dispose()
  }
})
