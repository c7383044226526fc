// The command beside a running server: live state, and changes that act at once.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runCommand } from '../testkit/command.ts'
import { type Server, startServer } from '../testkit/server.ts'
import { until } from '../testkit/until.ts'

let server: Server
beforeAll(async () => {
  server = await startServer({ flags: ['--chain.traffic=0'] })
})
afterAll(() => server.dispose())

async function json(...words: string[]): Promise<Record<string, unknown>> {
  const ran = await runCommand([...words, '--data', server.data, '--output', 'json'])
  expect(ran.stderr).toBe('')
  expect(ran.code).toBe(0)
  return ran.json()
}

async function statusWith(token: string): Promise<number> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getHealth' })
  const headers = { 'content-type': 'application/json', 'x-token': token }
  return (await fetch(server.url('rpc'), { method: 'POST', headers, body })).status
}

describe('beside a running server', () => {
  test('status prints its endpoints and sources', async () => {
    const status = await json('status')
    expect(status).toMatchObject({ running: true, pid: server.child.pid, doors: server.doors })
    expect(status.sources).toMatchObject({ 'metrics.source': 'embedded' })
  })

  test('products prints the actual addresses of the endpoints', async () => {
    const { products } = (await json('products')) as { products: Record<string, unknown>[] }
    const rpc = products.find((one) => one.name === 'Bundle: RPC')
    const endpoint = server.doors.rpc
    expect(rpc).toMatchObject({
      state: 'available',
      address: `${endpoint?.host}:${endpoint?.port}`,
    })
  })

  test('doctor takes the ports of our own server as good', async () => {
    const flags = Object.entries(server.doors).map(([name, endpoint]) => [
      `SLUICE_${name.toUpperCase()}__PORT`,
      String(endpoint.port),
    ])
    const words = ['doctor', '--data', server.data, '--output', 'json']
    const ran = await runCommand(words, Object.fromEntries(flags))
    const { checks } = ran.json() as { checks: { name: string; state: string; found: string }[] }
    const rpc = checks.find((check) => check.name === 'port rpc')
    expect(rpc).toMatchObject({
      state: 'ok',
      found: expect.stringMatching('is used by our server'),
    })
    expect(checks.find((check) => check.name === 'registry')?.state).toBe('ok')
  })

  test('a suspended or ended subscription is refused soon, a resumed one is not', async () => {
    const issued = (await json('subscription', 'add', 'live', '--product', 'bundle')) as {
      token: string
    }
    const becomes = (status: number) =>
      until(async () => (await statusWith(issued.token)) === status, `a ${status}`)
    await becomes(200)
    await json('subscription', 'suspend', 'live')
    await becomes(401)
    await json('subscription', 'resume', 'live')
    await becomes(200)
    await json('subscription', 'end', 'live', '--yes')
    await becomes(401)
  })

  test('a second server on the same folder is refused and leaves the first alone', async () => {
    const second = await runCommand(['serve', '--data', server.data])
    expect(second.code).toBe(1)
    expect(second.stderr).toContain('in use')
    expect((await json('status')).pid).toBe(server.child.pid)
  })

  test('after a kill -9 status reports no server, and the next start takes the socket over', async () => {
    await server.stop('SIGKILL')
    const dead = await runCommand(['status', '--data', server.data])
    expect(dead.code).toBe(1)
    expect(dead.stdout).toContain('No server runs')
    rmSync(join(server.data, 'doors.json'), { force: true })
    server = await startServer({ data: server.data, flags: ['--chain.traffic=0'] })
    expect((await json('status')).pid).toBe(server.child.pid)
  })
})
