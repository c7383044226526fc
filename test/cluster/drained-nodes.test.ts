// A node that an operator takes out at a hub is out at its gateways, also at one that was restarting
// meanwhile.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { askOperator } from '../../src/base/transport/unix-socket.ts'
import { type Devnode, startDevnode } from '../testkit/devnode.ts'
import { type Server, sluice, startServer } from '../testkit/server.ts'
import { until } from '../testkit/until.ts'
import { removeFolders, seed } from './gateway-stage.ts'
import { hasPostgres, type Postgres, startPostgres } from './postgres.ts'

const isHere = hasPostgres()
let postgres: Postgres
let chain: Devnode
let hub: Server

const closed = ['metrics', 'tpu', 'shredstream', 'indexer', 'websocket', 'operator'].map(
  (name) => `--${name}.enabled=false`,
)

beforeAll(async () => {
  if (!isHere) return
  postgres = await startPostgres()
  await seed(postgres.url)
  chain = await startDevnode({ slotMs: 150, flags: ['--nodes=2'] })
  const [, rpc, grpc] = /^node \d+ +(\S+) \S+ (\S+) \S+$/m.exec(chain.stdout())!
  const addresses = [
    { rpc: chain.url('rpc'), grpc: chain.url('grpc') },
    { rpc: rpc!, grpc: grpc!.replace(/^grpc:/, 'http:') },
  ]
  const nodes = addresses.flatMap((address, at) =>
    Object.entries(address).map(([name, url]) => `--upstreams.default.nodes.${at}.${name}=${url}`),
  )
  const cluster = [`--cluster.url=${postgres.url}`, '--cluster.gateway=here', '--gateways=2']
  hub = await startServer({ flags: ['--chain.source=upstream', ...closed, ...nodes, ...cluster] })
})

afterAll(async () => {
  await hub?.dispose()
  await chain?.dispose()
  postgres?.dispose()
  delete process.env.SLUICE_CLUSTER__URL
  removeFolders()
})

async function statusOf<T>(folder: string): Promise<T> {
  const answer = await askOperator(folder, 'status')
  if (!answer.ok) throw new Error(answer.message)
  // Reason for the cast: the server is of the same build.
  return answer.value as T
}

/** States of the two nodes at one gateway; none while it starts. */
async function statesAt(gateway: string): Promise<readonly string[]> {
  type Report = { upstreams: { state: string }[] }
  const report = await statusOf<Report>(`${hub.data}/${gateway}`).catch(() => null)
  return (report?.upstreams ?? []).slice(0, 2).map(({ state }) => state)
}

async function pidOf(gateway: string): Promise<number> {
  type Report = { gateways: { name: string; pid: number; state: string }[] }
  const { gateways } = await statusOf<Report>(hub.data)
  return gateways.find(({ name, state }) => name === `here-${gateway}` && state === 'up')?.pid ?? 0
}

async function isAt(gateway: string, state: string): Promise<void> {
  await until(async () => (await statesAt(gateway))[1] === state, `${state} at ${gateway}`)
}

describe.skipIf(!isHere)('nodes that are drained at a hub', () => {
  it('are drained at its gateways, and return there', async () => {
    await Promise.all([isAt('g1', 'up'), isAt('g2', 'up')])
    expect((await sluice(hub.data, 'node', 'drain', 'default', '2')).code).toBe(0)
    expect([await statesAt('g1'), await statesAt('g2')]).toEqual(
      Array(2).fill([expect.not.stringMatching('drained'), 'drained']),
    )
    expect((await sluice(hub.data, 'node', 'resume', 'default', '2')).code).toBe(0)
    await Promise.all([isAt('g1', 'up'), isAt('g2', 'up')])
  })

  it('are not drained at a gateway alone, which names its hub', async () => {
    for (const verb of ['drain', 'resume']) {
      const { code, stderr } = await sluice(`${hub.data}/g1`, 'node', verb, 'default', '2')
      expect([code, stderr]).toEqual([1, expect.stringContaining(`--data ${hub.data}\n`)])
    }
    expect([await statesAt('g1'), await statesAt('g2')]).not.toContainEqual(
      expect.arrayContaining(['drained']),
    )
  })

  it.each([
    ['drain', 'drained'],
    ['resume', 'up'],
  ])('are after a %s %s at a gateway that restarted meanwhile', async (verb, state) => {
    const pid = await pidOf('g1')
    process.kill(pid, 'SIGKILL')
    expect((await sluice(hub.data, 'node', verb, 'default', '2')).code).toBe(0)
    await until(async () => ![0, pid].includes(await pidOf('g1')), 'another process')
    await isAt('g1', state)
    expect((await statesAt('g2'))[1]).toBe(state)
  })
})
