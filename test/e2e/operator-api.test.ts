// The operator API of the built server: the commands of OPERATING.md run as they are written there,
// the socket's mode, a port with a credential, figures per customer, a restart.
import { execFile } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ApiTarget, apiSocket, callApi } from '../testkit/operator-api.ts'
import { littleTraffic, type Server, sluice, startServer } from '../testkit/server.ts'
import { root } from '../testkit/tree.ts'
import { until } from '../testkit/until.ts'

const run = promisify(execFile)
const flags = [
  ...littleTraffic,
  ...['websocket', 'grpc', 'tpu', 'shredstream'].map((name) => `--${name}.enabled=false`),
  '--operator.enabled=true',
  '--operator.port=0',
]
let server: Server

beforeAll(async () => {
  server = await startServer({ flags })
})
afterAll(() => server.dispose())

/** Every curl of the section, with its data folder. */
function commands(): string[] {
  const page = readFileSync(join(root, 'docs', 'OPERATING.md'), 'utf8')
  const [, section = ''] = /## Operator API\n([\s\S]*?)\n## /.exec(page) ?? []
  const lines = section.replaceAll('\\\n', '').split('\n')
  return lines.filter((line) => line.startsWith('curl '))
}

test('the commands of OPERATING.md work as they are written', async () => {
  expect(statSync(apiSocket(server.data).socketPath).mode & 0o777).toBe(0o600)
  const written = commands()
  expect(written.length).toBeGreaterThan(3)
  for (const line of written) {
    const words = line.replaceAll('./data/', `${server.data}/`)
    const { stdout } = await run('sh', ['-c', words])
    expect([line, stdout]).toEqual([line, expect.stringMatching(/^(\{"(?!error)|# HELP )/)])
  }
  const { stdout } = await sluice(server.data, 'audit', 'show', '--json')
  const { entries } = JSON.parse(stdout) as { entries: { who: string; what: string }[] }
  expect(entries.filter(({ who }) => who.endsWith('(operator API)')).length).toBeGreaterThan(1)
})

test('a customer that was added over the port with a credential is served and counted', async () => {
  const issued = await sluice(server.data, 'operator', 'add', 'e2e', '--json')
  const { token } = JSON.parse(issued.stdout) as { token: string }
  const target = { port: server.doors.operator!.port }
  expect((await callApi(target, '/v1/status')).status).toBe(401)
  const headers = { authorization: `Bearer ${token}` }
  const key = { ...headers, 'idempotency-key': 'order-1' }
  const body = { label: 'counted', product: ['bundle'] }
  const added = await callApi(target, '/v1/subscription/add', { body, headers: key })
  const customer = added.json() as { token: string; subscription: { id: string } }
  const call = (sent: string) =>
    fetch(server.url('rpc'), {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-token': sent },
      body: '{"jsonrpc":"2.0","id":1,"method":"getSlot"}',
    })
  // In force when it is answered.
  expect((await call(customer.token)).status).toBe(200)
  expect((await call(token)).status).toBe(401)
  const line = `sluice_subscription_calls_total{subscription="${customer.subscription.id}"} 1\n`
  await until(
    async () => (await callApi(target, '/metrics', { headers })).text.includes(line),
    'the call to be counted',
  )
  const open = await (await fetch(`${server.url('metrics')}/metrics`)).text()
  expect(open).not.toContain('sluice_subscription_calls_total')
  expect(open).not.toContain(customer.subscription.id)
  const { data } = server
  await server.stop()
  server = await startServer({ flags, data })
  const again = await callApi({ port: server.doors.operator!.port }, '/v1/subscription/add', {
    body,
    headers: key,
  })
  expect(again.json()).toEqual({ subscription: customer.subscription, repeated: true })
  expect(server.stderr()).not.toContain(token)
})

test('its process is started again after a death, on the same port', async () => {
  const processOf = async () => {
    const words = ['-P', String(server.child.pid), '-f', 'operator-api']
    return Number((await run('pgrep', words).catch(() => ({ stdout: '' }))).stdout)
  }
  const before = await processOf()
  process.kill(before, 'SIGKILL')
  const isBack = async () => ![0, before].includes(await processOf())
  await until(isBack, 'another process')
  const status = async (target: ApiTarget) =>
    (await callApi(target, '/v1/status').catch(() => null))?.status
  await until(async () => (await status(apiSocket(server.data))) === 200, 'the API to be back')
  const port = { port: server.doors.operator!.port }
  await until(async () => (await status(port)) === 401, 'its port to be back')
})
