// One numbering of events over three gateways and one PostgreSQL, while the gateway that numbers is
// killed and paused and PostgreSQL is killed: clients that move between the gateways with their
// cursor see every number once, with one content.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Server, startServer } from '../testkit/server.ts'
import { randomOf } from '../testkit/synthetic-solana.ts'
import { until } from '../testkit/until.ts'
import { removeFolders, seed } from './gateway-stage.ts'
import { hasPostgres, type Postgres, startPostgres } from './postgres.ts'
import { Rover } from './rover.ts'

const isHere = hasPostgres()
/** `SLUICE_CLUSTER_FULL=1` runs as many clients and faults as the design demands. */
const isFull = process.env.SLUICE_CLUSTER_FULL === '1'
const clients = isFull ? 1_000 : 30
const rounds = isFull ? 20 : 1
const waitMs = 60_000

let postgres: Postgres
const gateways: Server[] = []
const rovers: Rover[] = []
const unused = ['rpc', 'websocket', 'grpc', 'tpu', 'shredstream', 'indexer']

function start(index: number, options: { data?: string; port?: number } = {}): Promise<Server> {
  return startServer({
    ...(options.data === undefined ? {} : { data: options.data }),
    flags: [
      ...unused.map((name) => `--${name}.enabled=false`),
      `--cluster.url=${postgres.url}`,
      `--cluster.gateway=g${index}`,
      '--metrics.connectionsPerAddress=2000',
      ...(options.port === undefined ? [] : [`--metrics.port=${options.port}`]),
    ],
  })
}

beforeAll(async () => {
  if (!isHere) return
  postgres = await startPostgres()
  await seed(postgres.url)
  gateways.push(...(await Promise.all([1, 2, 3].map((index) => start(index)))))
}, 120_000)

afterAll(async () => {
  for (const rover of rovers) rover.end()
  for (const gateway of gateways) {
    gateway.child.kill('SIGCONT')
    await gateway.dispose()
  }
  postgres?.dispose()
  delete process.env.SLUICE_CLUSTER__URL
  removeFolders()
}, 60_000)

/** Index of the gateway that numbers the events, as soon as one does. */
async function numberer(): Promise<number> {
  const isIt = async (gateway: Server) => {
    const signal = AbortSignal.timeout(2_000)
    const answer = await fetch(`${gateway.url('metrics')}/metrics`, { signal })
    return /^sluice_cluster_numberer 1$/m.test(await answer.text())
  }
  let found = -1
  await until(
    async () => {
      const all = gateways.map((gateway) => isIt(gateway).catch(() => false))
      found = (await Promise.all(all)).indexOf(true)
      return found >= 0
    },
    'a gateway that numbers',
    waitMs,
  )
  return found
}

const urls = () =>
  gateways
    .filter(({ child }) => child.exitCode === null && child.signalCode === null)
    .map((gateway) => gateway.url('metrics').replace('http', 'ws'))

describe.skipIf(!isHere)('three gateways with one event log', () => {
  it('lose, repeat and renumber nothing under kills and pauses', async () => {
    const contents = new Map<number, string>()
    const random = randomOf(11)
    await numberer()
    for (let index = 0; index < clients; index++)
      rovers.push(new Rover({ urls, contents, random, stayMs: 2_000 }))
    const newest = () => Math.max(0, ...contents.keys())
    const goesOn = async (what: string) => {
      const { size } = contents
      await until(() => contents.size > size + 20, `frames after ${what}`, waitMs)
    }
    await goesOn('the start')
    for (let round = 0; round < rounds; round++) {
      const killed = await numberer()
      const { data, doors } = gateways[killed]!
      await gateways[killed]!.stop('SIGKILL')
      await goesOn('the kill of the numberer')
      gateways[killed] = await start(killed + 1, { data, port: doors.metrics!.port })

      const paused = gateways[await numberer()]!
      paused.child.kill('SIGSTOP')
      await goesOn('the pause of the numberer')
      paused.child.kill('SIGCONT')
      await goesOn('its return')

      await postgres.kill()
      postgres.start()
      await goesOn('the kill of PostgreSQL')
    }
    for (const rover of rovers) rover.settle()
    const last = newest()
    await until(() => rovers.every(({ cursor }) => cursor >= last), 'all clients', waitMs)

    expect([...new Set(rovers.flatMap(({ problems }) => problems))]).toEqual([])
    expect(rovers.reduce((sum, { snapshots }) => sum + snapshots, 0)).toBe(0)
    const [stored] = await postgres.sql<{ isWhole: boolean }>(
      'SELECT count(*) = max(seq) - min(seq) + 1 AS "isWhole" FROM sluice.event_frames',
    )
    expect(stored).toEqual({ isWhole: true })
    const starts = [...contents.values()].filter((text) => text.includes('"to_stage":"Proposed"'))
    const blocks = starts.map((text) => JSON.parse(text).Lifecycle.block_hash as string)
    expect(new Set(blocks).size).toBe(blocks.length)
    const heights = starts.map((text) => JSON.parse(text).Lifecycle.block_number as number)
    const missing = Math.max(...heights) - Math.min(...heights) + 1 - new Set(heights).size
    const sum = (read: (rover: Rover) => number) => rovers.reduce((all, one) => all + read(one), 0)
    const silence = Math.max(...rovers.map(({ longestSilenceMs }) => longestSilenceMs))
    console.info(
      `${sum((one) => one.connections)} connections, ${sum((one) => one.frames)} frames, ` +
        `${blocks.length} blocks, ${missing} missing, longest silence ${(silence / 1000).toFixed(1)} s`,
    )
  }, 3_600_000)
})
