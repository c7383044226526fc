// The embedded chain of the built server: health, streams, a killed process, a restart.
import { createRequire } from 'node:module'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Server, sluiceHere, startServer } from '../testkit/server.ts'
import { until } from '../testkit/until.ts'

const require = createRequire(import.meta.url)

const flags = ['--chain.slotMs=100', '--chain.traffic=5', '--metrics.enabled=false']

let server: Server
beforeAll(async () => {
  server = await startServer({ flags })
})
afterAll(() => server.dispose())

async function rpc(method: string, params: unknown[] = []) {
  const answer = await fetch(server.url('rpc'), {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-token': server.token },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  return (await answer.json()) as { result?: unknown; error?: { code: number } }
}

const finalizedSlot = async () =>
  (await rpc('getSlot', [{ commitment: 'finalized' }])).result as number

async function chainOf(): Promise<{ pid: number; healthy: boolean; finalized: number }> {
  const { stdout } = await sluiceHere(server.data, 'status', '--output=json')
  return JSON.parse(stdout).chain
}

describe('the embedded chain of a running server', () => {
  test('is healthy and named by status', async () => {
    expect((await rpc('getHealth')).result).toBe('ok')
    expect((await chainOf()).healthy).toBe(true)
  })

  test('is reached through the server alone', async () => {
    const [node] = (await rpc('getClusterNodes')).result as [{ rpc: string; pubsub: string }]
    for (const method of ['getSlot', 'surfnet_pauseClock']) {
      const answer = await fetch(`http://${node.rpc}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-token': server.token },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: [] }),
      })
      expect(answer.status).toBe(401)
      expect(answer.headers.get('access-control-allow-origin')).toBeNull()
    }
    expect((await fetch(`http://${node.pubsub}`)).status).toBe(401)
  })

  test('streams its background traffic over gRPC', async () => {
    const { default: Client } = require('@triton-one/yellowstone-grpc')
    const { host, port } = server.doors.grpc!
    const client = new Client(`http://${host}:${port}`, server.token, {})
    const stream = await client.subscribe()
    const seen: { transaction: number; blockMeta: number; slot: number } = {
      transaction: 0,
      blockMeta: 0,
      slot: 0,
    }
    stream.on('error', () => {})
    stream.on('data', (update: Record<string, unknown>) => {
      for (const kind of Object.keys(seen) as (keyof typeof seen)[])
        if (update[kind] !== undefined) seen[kind] += 1
    })
    stream.write({
      accounts: {},
      slots: { a: {} },
      transactions: { a: { accountInclude: [], accountExclude: [], accountRequired: [] } },
      transactionsStatus: {},
      blocks: {},
      blocksMeta: { a: {} },
      entry: {},
      accountsDataSlice: [],
    })
    await until(() => Object.values(seen).every((count) => count > 2), 'updates of each kind')
    stream.cancel()
  })

  test('killed with SIGKILL answers -32005 and is back soon', async () => {
    const before = await chainOf()
    process.kill(before.pid, 'SIGKILL')
    await until(async () => (await rpc('getHealth')).error?.code === -32005, 'it is noticed')
    // Through the operator's socket: a loaded machine starts a process slowly, and the token's
    // budget is not for waiting.
    await until(async () => (await chainOf()).healthy, 'another process serves')
    await until(async () => (await rpc('getHealth')).result === 'ok', 'it is back')
    expect((await chainOf()).pid).not.toBe(before.pid)
  })

  test('resumes after a SIGKILL of the whole server, and starts from genesis with --fresh', async () => {
    // Through the operator's socket: the token's budget is not for waiting.
    await until(async () => (await chainOf()).finalized > 0, 'something is final')
    const finalized = await finalizedSlot()
    const genesis = (await rpc('getGenesisHash')).result
    const { token, data } = server
    await server.stop('SIGKILL')
    const again = await startServer({ data, flags })
    server = { ...again, token }
    expect(await finalizedSlot()).toBeGreaterThanOrEqual(finalized)
    expect((await rpc('getGenesisHash')).result).toBe(genesis)
    await again.stop()
    const fresh = await startServer({ data, flags: [...flags, '--fresh'] })
    server = { ...fresh, token, dispose: () => fresh.dispose() }
    expect((await rpc('getGenesisHash')).result).not.toBe(genesis)
  })
})
