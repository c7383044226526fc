// One numbering of events over three gateways and one PostgreSQL with a synchronous standby, while
// the gateway that numbers is killed, paused and cut off, and PostgreSQL is killed and fails over:
// clients that move between the gateways with their cursor see every number once, with one content.
//
//   clients ─► gateways ─► a relay each, which can swallow bytes ─► primary, standby
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { freePort } from '../testkit/free-port.ts'
import { type Server, startServer } from '../testkit/server.ts'
import { randomOf } from '../testkit/synthetic-solana.ts'
import { TcpCut } from '../testkit/tcp-cut.ts'
import { until } from '../testkit/until.ts'
import { isFull } from './full.ts'
import { removeFolders, seed } from './gateway-stage.ts'
import { hasPostgres, type Postgres, startPostgres } from './postgres.ts'
import { Rover } from './rover.ts'
import { type Standby, startStandby, waitForNobody, waitForStandby } from './standby.ts'

const isHere = hasPostgres()
/** `SLUICE_CLUSTER_FULL=1` runs as many clients and faults as the design demands. */
const clients = isFull ? 1_000 : 30
const fullMs = 300_000
const silenceMsMax = 5_000

let primary: Postgres
let standby: Standby
const gateways: Server[] = []
/** Per gateway one relay to each PostgreSQL. */
const relays: TcpCut[][] = []
const rovers: Rover[] = []
const unused = ['rpc', 'websocket', 'grpc', 'tpu', 'shredstream', 'indexer']

function start(index: number, options: { data?: string; port?: number } = {}): Promise<Server> {
  const hosts = relays[index]!.map(({ target }) => target).join(',')
  return startServer({
    ...(options.data === undefined ? {} : { data: options.data }),
    flags: [
      ...unused.map((name) => `--${name}.enabled=false`),
      `--cluster.url=postgres://sluice@${hosts}/postgres`,
      `--cluster.gateway=g${index + 1}`,
      '--metrics.connectionsPerAddress=2000',
      // All clients have one address.
      '--addressBudget.workMsPerSecond=0',
      ...(options.port === undefined ? [] : [`--metrics.port=${options.port}`]),
    ],
  })
}

beforeAll(async () => {
  if (!isHere) return
  primary = await startPostgres()
  await seed(primary.url)
  const port = await freePort()
  const hosts = [primary.port, port].map((one) => `127.0.0.1:${one}`)
  for (let index = 0; index < 3; index++)
    relays.push(await Promise.all(hosts.map((host) => TcpCut.open(host))))
  const starting = Promise.all([0, 1, 2].map((index) => start(index)))
  standby = await startStandby(primary, port)
  await waitForStandby(primary)
  gateways.push(...(await starting))
})

afterAll(async () => {
  for (const rover of rovers) rover.end()
  for (const gateway of gateways) {
    gateway.child.kill('SIGCONT')
    await gateway.dispose()
  }
  for (const relay of relays.flat()) relay.close()
  primary?.dispose()
  standby?.dispose()
  delete process.env.SLUICE_CLUSTER__URL
  removeFolders()
})

/** Index of the gateway that numbers the events, as soon as one does. */
async function numberer(): Promise<number> {
  let found: string | undefined
  await until(async () => {
    const held = `SELECT info FROM leases WHERE name = 'events' AND until > clock_timestamp()`
    const rows = await primary.sql<{ info: string }>(held).catch(() => [])
    found = rows[0]?.info
    return found !== undefined
  }, 'a gateway that numbers')
  return Number(found!.slice(1)) - 1
}

const urls = () =>
  gateways
    .filter(({ child }) => child.exitCode === null && child.signalCode === null)
    .map((gateway) => gateway.url('metrics').replace('http', 'ws'))

const contents = new Map<number, string>()
const longest = new Map<string, number>()

/** Waits for frames after a fault, and notes how long a client had none. */
async function goesOn(what: string): Promise<void> {
  const { size } = contents
  await until(() => contents.size > size + 20, `frames after ${what}`)
  const silence = Math.max(...rovers.map((rover) => rover.takeSilenceMs()))
  longest.set(what, Math.max(longest.get(what) ?? 0, silence))
}

async function killNumberer(): Promise<void> {
  const index = await numberer()
  const { data, doors } = gateways[index]!
  await gateways[index]!.stop('SIGKILL')
  await goesOn('the kill of the numberer')
  gateways[index] = await start(index, { data, port: doors.metrics!.port })
}

interface Term {
  readonly term: string
  readonly holder: string
}

async function pauseNumberer(): Promise<void> {
  await numberer()
  const held = `SELECT term, holder, info FROM leases WHERE name = 'events'`
  const [before] = await primary.sql<Term & { readonly info: string }>(held)
  const paused = gateways[Number(before!.info.slice(1)) - 1]!
  paused.child.kill('SIGSTOP')
  await goesOn('the pause of the numberer')
  // What goes on may have been appended before it.
  const isTaken = async () => (await primary.sql<Term>(held))[0]?.term !== before!.term
  await until(isTaken, 'another numberer')
  // What it appends when it wakes, with the right next number.
  const [refused] = await primary.sql<{ done: boolean }>(
    'SELECT append_events($1, $2, (SELECT next FROM event_head), ARRAY[]::bytea[]) AS done',
    [before!.term, before!.holder],
  )
  expect(refused).toEqual({ done: false })
  paused.child.kill('SIGCONT')
  await goesOn('its return')
}

async function cutNumberer(): Promise<void> {
  const relaysOf = relays[await numberer()]!
  for (const relay of relaysOf) relay.swallow(true)
  await goesOn('a black hole between numberer and PostgreSQL')
  for (const relay of relaysOf) {
    relay.swallow(false)
    relay.cut()
  }
  await goesOn('its end')
}

async function killPostgres(): Promise<void> {
  await primary.kill()
  await primary.restart()
  await goesOn('the kill of PostgreSQL')
}

/** The primary dies, its standby takes its place. */
async function failOver(): Promise<void> {
  await primary.kill()
  await standby.promote()
  await waitForNobody(standby)
  const dead = primary
  primary = standby
  await goesOn('the failover of PostgreSQL')
  dead.dispose()
}

async function replaceStandby(port: number): Promise<void> {
  standby = await startStandby(primary, port)
  await waitForStandby(primary)
  await goesOn('a new standby')
}

describe.skipIf(!isHere)('three gateways with one event log', () => {
  it('lose, repeat and renumber nothing under kills and pauses', async () => {
    const random = randomOf(11)
    await numberer()
    const startedMs = performance.now()
    for (let index = 0; index < clients; index++)
      rovers.push(new Rover({ urls, contents, random, stayMs: 2_000 }))
    await goesOn('the start')
    let rounds = 0
    do {
      await killNumberer()
      await pauseNumberer()
      if (isFull) await cutNumberer()
      if (isFull) await killPostgres()
      const { port } = primary
      await failOver()
      if (isFull) await replaceStandby(port)
      rounds++
    } while (isFull && performance.now() - startedMs < fullMs)
    for (const rover of rovers) rover.settle()
    const last = Math.max(0, ...contents.keys())
    await until(() => rovers.every(({ cursor }) => cursor >= last), 'all clients')

    const starts = [...contents.values()].filter((text) => text.includes('"to_stage":"Proposed"'))
    const blocks = starts.map((text) => JSON.parse(text).Lifecycle.block_hash as string)
    const heights = starts.map((text) => JSON.parse(text).Lifecycle.block_number as number)
    const missing = Math.max(...heights) - Math.min(...heights) + 1 - new Set(heights).size
    const sum = (read: (rover: Rover) => number) => rovers.reduce((all, one) => all + read(one), 0)
    const silences = [...longest].map(([what, ms]) => `${what} ${(ms / 1000).toFixed(1)} s`)
    console.info(
      `${clients} clients, ${rounds} rounds, ${sum((one) => one.connections)} connections, ` +
        `${sum((one) => one.frames)} frames, ${blocks.length} blocks, ${missing} missing; ` +
        `longest silence after ${silences.join(', ')}`,
    )
    expect([...new Set(rovers.flatMap(({ problems }) => problems))]).toEqual([])
    expect(sum((one) => one.snapshots)).toBe(0)
    const [stored] = await primary.sql<{ isWhole: boolean }>(
      'SELECT count(*) = max(seq) - min(seq) + 1 AS "isWhole" FROM sluice.event_frames',
    )
    expect(stored).toEqual({ isWhole: true })
    expect(new Set(blocks).size).toBe(blocks.length)
    if (isFull) expect(Math.max(...longest.values())).toBeLessThanOrEqual(silenceMsMax)
  }, 3_600_000)
})
