// `sluice serve --gateways 2`: a hub with two gateway processes on shared ports and one PostgreSQL.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { askOperator } from '../../src/base/transport/unix-socket.ts'
import { runCommand } from '../testkit/command.ts'
import { Follower } from '../testkit/follower.ts'
import { apiSocket, callApi } from '../testkit/operator-api.ts'
import { provision, type Server, sluice, startServer } from '../testkit/server.ts'
import { TcpCut } from '../testkit/tcp-cut.ts'
import { until } from '../testkit/until.ts'
import { removeFolders, seed } from './gateway-stage.ts'
import { hasPostgres, type Postgres, startPostgres } from './postgres.ts'

const isHere = hasPostgres()
let postgres: Postgres
let relay: TcpCut
let hub: Server
const sockets: Socket[] = []

beforeAll(async () => {
  if (!isHere) return
  postgres = await startPostgres()
  await seed(postgres.url)
  relay = await TcpCut.open(`127.0.0.1:${postgres.port}`)
  const url = postgres.url.replace(`127.0.0.1:${postgres.port}`, relay.target)
  const flags = [`--cluster.url=${url}`, '--cluster.gateway=here', '--chain.slotMs=150']
  hub = await startServer({ flags: [...flags, '--gateways=2'] })
})

afterAll(async () => {
  for (const socket of sockets) socket.destroy()
  await hub?.dispose()
  relay?.close()
  postgres?.dispose()
  delete process.env.SLUICE_CLUSTER__URL
  removeFolders()
})

interface Gateway {
  readonly name: string
  readonly state: string
  readonly pid: number
  readonly restarts: number
}

/** The gateways that the hub started. */
async function gateways(): Promise<Gateway[]> {
  const answer = await askOperator(hub.data, 'status')
  if (!answer.ok) throw new Error(answer.message)
  const { gateways } = answer.value as { gateways: Gateway[] }
  return gateways.filter(({ pid }) => pid !== null)
}

/** A connection that a gateway has taken: it has answered. */
async function connection(): Promise<Socket> {
  const { host, port } = hub.doors.rpc!
  const socket = connect(port, host)
  sockets.push(socket)
  socket.on('error', () => {})
  socket.write('GET /health HTTP/1.1\r\nhost: a\r\n\r\n')
  const [chunk] = await once(socket, 'data')
  expect(String(chunk)).toContain(' 200 ')
  return socket
}

const isAlive = (pid: number) => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

describe.skipIf(!isHere)('a hub with two gateways', () => {
  it('lists them in sluice status and has their meters', async () => {
    await until(async () => (await gateways()).every(({ state }) => state === 'up'), 'both up')
    expect((await gateways()).map(({ name }) => name)).toEqual(['here-g1', 'here-g2'])
    const { stdout } = await sluice(hub.data, 'status')
    expect(stdout).toMatch(/^here-g1 +up .* 0$/m)
    expect(stdout).toMatch(/^here-g2 +up /m)
    const meters = await (await fetch(`${hub.url('metrics')}/metrics`)).text()
    expect(meters).toMatch(/^sluice_build_info\{[^}]*gateway="here-g2"\} 1$/m)
    expect(meters.match(/^# TYPE sluice_build_info /gm)).toHaveLength(1)
    const isReady = async () => (await fetch(`${hub.url('metrics')}/ready`)).ok
    await until(isReady, 'the hub to be ready')
  })

  it('serve a token on both, with the stream of the hub', async () => {
    const { token } = await provision(hub.data, 'me', '--product=bundle', '--plan=unlimited')
    const call = async () => {
      const response = await fetch(hub.url('rpc'), {
        method: 'POST',
        headers: { 'x-token': token, 'content-type': 'application/json', connection: 'close' },
        body: '{"jsonrpc":"2.0","id":1,"method":"getSlot"}',
      })
      const { result } = (await response.json()) as { result?: number }
      return typeof result === 'number'
    }
    await until(
      async () => (await Promise.all(Array.from({ length: 10 }, call))).every(Boolean),
      'the token',
    )
    for (let at = 0; at < 20; at++) expect(await call()).toBe(true)
    const follower = new Follower(new URL(hub.url('grpc')).host, token, 1)
    await until(() => follower.newest >= 0, 'the first block')
    await follower.reaches(follower.newest + 10)
    follower.stop()
    expect([follower.gaps(), follower.duplicates]).toEqual([[], 0])
  })

  it('are operated by the API of the hub, which has the figures of their customers', async () => {
    const api = apiSocket(hub.data)
    const issued = await sluice(hub.data, 'operator', 'add', 'ci', '--json')
    const { token } = JSON.parse(issued.stdout) as { token: string }
    const headers = { authorization: `Bearer ${token}` }
    const body = { label: 'over-http', product: ['bundle'] }
    const added = await callApi(api, '/v1/subscription/add', { body, headers })
    expect([added.status, added.json().warnings]).toEqual([200, undefined])
    const { subscriptions } = (await callApi(api, '/v1/subscription/list')).json() as {
      subscriptions: { id: string; label: string }[]
    }
    const { id } = subscriptions.find(({ label }) => label === 'me')!
    const figure = new RegExp(`^sluice_subscription_calls_total{subscription="${id}",gateway=`, 'm')
    const hasFigure = async () => figure.test((await callApi(api, '/metrics')).text)
    await until(hasFigure, 'the calls of a customer')
    // A gateway of a hub has no API of its own.
    await expect(callApi(apiSocket(`${hub.data}/g1`), '/metrics')).rejects.toThrow('ENOENT')
    const show = await sluice(hub.data, 'audit', 'show', 'over-http', '--json')
    expect(JSON.parse(show.stdout).entries[0].who).toBe('ci (operator API)')
  })

  it('connect to PostgreSQL for no change by the API anew', async () => {
    const change = async (text: string) => {
      const before = relay.accepted
      const body = { subscription: 'over-http', text }
      expect((await callApi(apiSocket(hub.data), '/v1/note/add', { body })).status).toBe(200)
      return relay.accepted - before
    }
    const made = [await change('one'), await change('two'), await change('three')]
    // A machine that is busy has a second connection opened beside one whose answer is late.
    expect(Math.min(...made)).toBe(0)
  })

  it('show the cluster from the data folder of each, without the address of PostgreSQL', async () => {
    for (const folder of [hub.data, `${hub.data}/g1`, `${hub.data}/g2`]) {
      const ran = await runCommand(['cluster', 'status', '--data', folder, '--json'])
      const { gateways } = ran.json() as { gateways: { name: string; isRunning: boolean }[] }
      const running = gateways.filter(({ isRunning }) => isRunning).map(({ name }) => name)
      expect(running).toEqual(expect.arrayContaining(['here-g1', 'here-g2']))
    }
  })

  it('loses only the connections of a gateway that is killed, and takes them back at once', async () => {
    const open = await Promise.all(Array.from({ length: 40 }, connection))
    const [victim] = await gateways()
    process.kill(victim!.pid, 'SIGKILL')
    await until(() => !isAlive(victim!.pid), 'its end')
    await until(() => open.some(({ closed }) => closed), 'the first broken connection')
    // What it had is closed by the kernel at once; the rest still answers.
    await new Promise((resolve) => setTimeout(resolve, 100))
    const broken = open.filter(({ closed }) => closed)
    const kept = open.filter(({ closed }) => !closed)
    // They reach the other gateway: the killed one may not be back yet.
    await Promise.all(broken.map(connection))
    expect(broken.length).toBeGreaterThan(4)
    expect(kept.length).toBeGreaterThan(4)
    const answers = kept.map(async (socket) => {
      socket.write('GET /health HTTP/1.1\r\nhost: a\r\n\r\n')
      return String((await once(socket, 'data'))[0])
    })
    for (const answer of await Promise.all(answers)) expect(answer).toContain(' 200 ')
    const isBack = ({ name, state, restarts }: Gateway) =>
      name === victim!.name && state === 'up' && restarts === 1
    await until(async () => (await gateways()).some(isBack), 'another process')
  })

  it('ends with its gateways, also when it is killed', async () => {
    const pids = (await gateways()).map(({ pid }) => pid)
    await hub.stop('SIGKILL')
    await until(() => !pids.some(isAlive), 'the end of the gateways')
  })
})

it('refuses gateways without a PostgreSQL, in one sentence', async () => {
  const start = startServer({ flags: ['--cluster.url=', '--gateways', '2'] })
  await expect(start).rejects.toThrow('cluster.gateways is set: set cluster.url to the PostgreSQL')
})
