// One budget per subscription, across endpoints and machines.
import { rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { provision, type Server, startServer } from '../testkit/server.ts'
import { askSocket, openSocket, tryGrpc, tryRpc } from '../testkit/try-endpoint.ts'
import { until } from '../testkit/until.ts'

describe('a budget', () => {
  let server: Server
  beforeAll(async () => {
    // So slow that little comes back while a test runs, unless the test waits for it.
    writeFileSync(
      config,
      'plans:\n  slow: { creditsPerSecond: 1, burst: 12 }\n  tight: { creditsPerSecond: 2, burst: 4 }\n',
    )
    server = await startServer({
      flags: [`--config=${config}`, '--metrics.enabled=false', '--chain.traffic=0'],
    })
  })
  afterAll(async () => {
    await server.dispose()
    rmSync(config)
  })
  const config = join(tmpdir(), `sluice-plans-${process.pid}.yaml`)
  const issue = (label: string, plan: string) =>
    provision(server.data, label, '--product=bundle', `--plan=${plan}`, `--config=${config}`)

  const sent = (token: string) => ({ headers: [['x-token', token]] as [string, string][] })

  test('is one over rpc, websocket and grpc, and over connections', async () => {
    const { token } = await issue('one', 'slow')
    const startMs = performance.now()
    await until(async () => (await tryRpc(server, sent(token))).status === 200, 'the token')
    // The handshake costs one like any call.
    const socket = await openSocket(server, token)
    const admitted = { rpc: 0, websocket: 0, grpc: 0 }
    for (let round = 0; round < 12; round++) {
      if ((await tryRpc(server, sent(token))).status === 200) admitted.rpc++
      const answer = (await askSocket(socket, round, 'getVersion')) as { result?: unknown }
      if (answer.result !== undefined) admitted.websocket++
      if ((await tryGrpc(server, sent(token))).status === 0) admitted.grpc++
    }
    socket.close()
    const elapsedSeconds = (performance.now() - startMs) / 1_000
    expect(Math.min(admitted.rpc, admitted.websocket, admitted.grpc)).toBeGreaterThanOrEqual(2)
    // Burst 12 and one credit a second, for these and the two calls before the loop. Three
    // budgets of 12 would admit some 34 of the 36.
    const sum = 2 + admitted.rpc + admitted.websocket + admitted.grpc
    expect(sum).toBeLessThanOrEqual(12 + Math.ceil(elapsedSeconds))
  })

  test('over it: 429 with Retry-After and the id on rpc, in band on websocket, code 8 on grpc', async () => {
    const { token } = await issue('over', 'slow')
    await until(async () => (await tryRpc(server, sent(token))).status === 200, 'the token')
    const socket = await openSocket(server, token)
    let refused = await tryRpc(server, sent(token))
    while (refused.status === 200) refused = await tryRpc(server, sent(token))
    expect(refused.status).toBe(429)
    expect(Number(refused.headers['retry-after'])).toBeGreaterThanOrEqual(1)
    expect(JSON.parse(refused.body)).toMatchObject({ id: 7, error: { code: -32429 } })
    expect(refused.headers['ratelimit-policy']).toMatch(/;q=12;w=12/)
    expect(refused.headers.ratelimit).toMatch(/;r=0;t=\d+/)
    // A credit comes back every second, perhaps in between.
    const spend = async () => {
      while ((await tryRpc(server, sent(token))).status === 200);
    }
    await until(async () => {
      await spend()
      const answer = (await askSocket(socket, 3, 'getVersion')) as {
        readonly id: number
        readonly error?: { readonly code: number }
      }
      expect(answer.id).toBe(3)
      return answer.error?.code === -32429
    }, 'a refusal in band')
    expect(socket.readyState).toBe(socket.OPEN)
    socket.close()
    await until(async () => {
      await spend()
      return (await tryGrpc(server, sent(token))).status === 8
    }, 'a refusal on grpc')
  })

  test('is restored after the time in Retry-After', async () => {
    const { token } = await issue('back', 'tight')
    await until(async () => (await tryRpc(server, sent(token))).status === 200, 'the token')
    let refused = await tryRpc(server, sent(token))
    while (refused.status === 200) refused = await tryRpc(server, sent(token))
    const seconds = Number(refused.headers['retry-after'])
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000))
    expect((await tryRpc(server, sent(token))).status).toBe(200)
  })

  test('counts the items of a batch, and takes or refuses it whole', async () => {
    const { token } = await issue('batch', 'slow')
    await until(async () => (await tryRpc(server, sent(token))).status === 200, 'the token')
    const batch = (count: number) =>
      JSON.stringify(
        Array.from({ length: count }, (_, id) => ({ jsonrpc: '2.0', id, method: 'getHealth' })),
      )
    const first = await tryRpc(server, sent(token), batch(8))
    expect(first.status).toBe(200)
    const second = await tryRpc(server, sent(token), batch(8))
    expect(second.status).toBe(429)
    const answers = JSON.parse(second.body) as { id: number; error: { code: number } }[]
    expect(answers.map(({ id }) => id)).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
    expect(answers.every(({ error }) => error.code === -32429)).toBe(true)
    const never = await tryRpc(server, sent(token), batch(13))
    const tooDear = JSON.parse(never.body) as { error: { code: number } }[]
    expect(tooDear.map(({ error }) => error.code)).toEqual(Array(13).fill(-32600))
  })
})
