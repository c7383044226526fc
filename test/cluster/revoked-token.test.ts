// Real gateways on one PostgreSQL: a token revoked by the command is dead on all of them, and they
// serve on without PostgreSQL.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import WebSocket from 'ws'
import { type Server, sluice, startServer } from '../testkit/server.ts'
import { TcpCut } from '../testkit/tcp-cut.ts'
import { until } from '../testkit/until.ts'
import { isFull } from './full.ts'
import { by, newFolder, openGateway, removeFolders } from './gateway-stage.ts'
import { hasPostgres, type Postgres, startPostgres } from './postgres.ts'

/** Twice the second of the contract. */
const revokedMsMax = 2_000
/** `SLUICE_CLUSTER_FULL=1` revokes as many tokens as the design demands. */
const rounds = isFull ? 200 : 3
/** Only the endpoint that needs no chain. */
const flags = [
  ...['rpc', 'websocket', 'grpc', 'tpu', 'shredstream'].map((name) => `--${name}.enabled=false`),
  '--metrics.auth=token',
]

describe.skipIf(!hasPostgres())('gateways on one PostgreSQL', () => {
  let postgres: Postgres
  let url: string
  const servers: Server[] = []
  const command = (data: string, ...args: string[]) => {
    process.env.SLUICE_CLUSTER__URL = url
    return sluice(data, ...args)
  }
  beforeAll(async () => {
    postgres = await startPostgres()
    url = await postgres.database()
  })
  afterAll(async () => {
    delete process.env.SLUICE_CLUSTER__URL
    await Promise.all(servers.map((server) => server.dispose()))
    postgres.dispose()
    removeFolders()
  })
  const statusOf = async (server: Server, token: string) => {
    const answer = await fetch(`${server.url('metrics')}/v1/tps`, { headers: { 'x-token': token } })
    await answer.arrayBuffer()
    return answer.status
  }

  it('refuses to start on a database that was not seeded, with one sentence', async () => {
    const data = newFolder()
    const start = startServer({ data, flags, env: { SLUICE_CLUSTER__URL: url } })
    await expect(start).rejects.toThrow('run npx --no -- sluice cluster seed once')
  })

  it('ends a revoked token and its streams on every gateway', async () => {
    const operator = newFolder()
    expect(await command(operator, 'cluster', 'seed')).toMatchObject({ code: 0 })
    for (const gateway of ['g1', 'g2'])
      servers.push(
        await startServer({
          data: newFolder(),
          flags: [...flags, `--cluster.gateway=${gateway}`],
          env: { SLUICE_CLUSTER__URL: url },
        }),
      )
    const add = ['subscription', 'add', 'acme', '--product', 'bundle', '--json']
    const added = await command(operator, ...add)
    expect(added.stderr).toBe('')
    const { token } = JSON.parse(added.stdout) as { token: string }
    for (const server of servers)
      await until(async () => (await statusOf(server, token)) !== 401, 'the new token')
    const streams = await Promise.all(servers.map((server) => openStream(server, token)))
    const rotated = await command(operator, 'token', 'rotate', 'acme', '--yes')
    expect(rotated.code).toBe(0)
    const revokedMs = performance.now()
    await Promise.all(streams.map(({ closed }) => closed))
    for (const server of servers)
      await until(async () => (await statusOf(server, token)) === 401, 'the revocation')
    expect(performance.now() - revokedMs).toBeLessThan(revokedMsMax)
    const status = await command(operator, 'cluster', 'status', '--json')
    const { gateways } = JSON.parse(status.stdout) as {
      gateways: { name: string; isRunning: boolean }[]
    }
    expect(gateways.filter(({ isRunning }) => isRunning).map(({ name }) => name)).toEqual([
      'g1',
      'g2',
    ])
    const verified = await command(operator, 'audit', 'verify', '--json')
    expect(JSON.parse(verified.stdout)).toMatchObject({ ok: true, entries: 2 })
  })

  it('ends tokens on three gateways, also where the connection to PostgreSQL is dead', async () => {
    const cut = await TcpCut.open(`127.0.0.1:${postgres.port}`)
    const through = url.replace(/:\d+\//, `:${cut.target.split(':')[1]}/`)
    const flagsHere = [...flags, '--cluster.gateway=g3']
    const env = { SLUICE_CLUSTER__URL: through }
    const third = await startServer({ data: newFolder(), flags: flagsHere, env })
    const all = [...servers, third]
    const operator = openGateway(url, 'operator')
    await operator.start()
    const tookMs: Record<'usual' | 'dead', number[]> = { usual: [], dead: [] }
    for (let round = 0; round < rounds; round++) {
      const label = `revoked-${round}`
      const added = await operator.shared.verbs.add({ label, products: ['bundle'] }, by)
      if (!added.ok) throw new Error(added.refusal.message)
      const { token } = added.value
      for (const server of all)
        await until(async () => (await statusOf(server, token)) !== 401, 'the token')
      const streams = await Promise.all(all.map((server) => openStream(server, token)))
      const kind = round % 3 === 2 ? 'dead' : 'usual'
      if (kind === 'dead') cut.blackHole()
      expect((await operator.shared.verbs.end(label, by)).ok).toBe(true)
      const endedMs = performance.now()
      const isRefused = (server: Server) =>
        until(async () => (await statusOf(server, token)) === 401, 'the revocation')
      await Promise.all([...all.map(isRefused), ...streams.map(({ closed }) => closed)])
      tookMs[kind].push(performance.now() - endedMs)
    }
    const p99 = (values: readonly number[]) =>
      Math.round(values.toSorted((a, b) => a - b)[Math.ceil(values.length * 0.99) - 1]!)
    console.info(`revoked on all after ${p99(tookMs.usual)} ms, ${p99(tookMs.dead)} ms (p99)`)
    expect(p99([...tookMs.usual, ...tookMs.dead])).toBeLessThan(revokedMsMax)
    const heads = await Promise.all(
      [operator.store, ...all.map(({ data }) => data)].map(async (one) =>
        typeof one === 'string'
          ? JSON.parse((await command(one, 'audit', 'verify', '--json')).stdout)
          : one.verifyAudit(),
      ),
    )
    for (const head of heads) expect(head).toMatchObject({ ok: true, head: heads[0].head })
    await operator.stop()
    await third.dispose()
    cut.close()
  }, 1_800_000)

  it('serves on from its copy without PostgreSQL, also after a restart', async () => {
    const operator = newFolder()
    const add = ['subscription', 'add', 'static', '--product', 'bundle', '--json']
    const { token } = JSON.parse((await command(operator, ...add)).stdout) as { token: string }
    const [first, second] = servers as [Server, Server]
    await until(async () => (await statusOf(first, token)) !== 401, 'the token')
    await until(async () => (await statusOf(second, token)) !== 401, 'the token')
    postgres.stop()
    expect(await statusOf(first, token)).not.toBe(401)
    await second.stop()
    const again = await startServer({
      data: second.data,
      flags,
      env: { SLUICE_CLUSTER__URL: url },
    })
    servers.push(again)
    expect(await statusOf(again, token)).not.toBe(401)
    const refused = await command(operator, 'subscription', 'end', 'static', '--yes')
    expect(refused.code).not.toBe(0)
    expect(refused.stderr).toContain('PostgreSQL')
    postgres.start()
  })
})

async function openStream(server: Server, token: string) {
  const address = server.url('metrics').replace(/^http/, 'ws')
  const socket = new WebSocket(`${address}/v1/ws`, { headers: { 'x-token': token } })
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  await new Promise<void>((resolve, reject) => {
    socket.once('open', () => resolve())
    socket.once('error', reject)
  })
  return { closed }
}
