// One budget over three gateways, as customers meet it through rpc, websocket and grpc: never above
// the plan, all of it usable through any gateway, and served without PostgreSQL.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Devnode, startDevnode } from '../testkit/devnode.ts'
import { provision, type Server, startServer } from '../testkit/server.ts'
import { TcpCut } from '../testkit/tcp-cut.ts'
import { until } from '../testkit/until.ts'
import {
  type BudgetClient,
  BudgetLoad,
  connectClient,
  type Endpoint,
  endpoints,
} from './budget-clients.ts'
import { isFull } from './full.ts'
import { newFolder, removeFolders, seed } from './gateway-stage.ts'
import { hasPostgres, type Postgres, startPostgres } from './postgres.ts'

const isHere = hasPostgres()
const names = ['g0', 'g1', 'g2']
const [rate, burst] = [100, 200]
/** A busy machine exchanges less often; 97 % is the design's, on a machine with time. */
const usable = isFull ? 0.97 : 0.6
const spendMs = isFull ? 6_000 : 2_000
const awayMs = isFull ? 60_000 : 3_000
let postgres: Postgres
let node: Devnode
let link: TcpCut
const servers: Server[] = []
const clients: BudgetClient[] = []
let labels = 0

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

beforeAll(async () => {
  if (!isHere) return
  postgres = await startPostgres()
  await seed(postgres.url)
  link = await TcpCut.open(`127.0.0.1:${postgres.port}`)
  node = await startDevnode({ slotMs: 400 })
  const closed = ['metrics', 'tpu', 'shredstream', 'indexer'].map(
    (name) => `--${name}.enabled=false`,
  )
  // The last one reaches PostgreSQL through a link that can be cut.
  const urls = [
    postgres.url,
    postgres.url,
    postgres.url.replace(`127.0.0.1:${postgres.port}`, link.target),
  ]
  const started = names.map((name, at) =>
    startServer({
      flags: [
        ...closed,
        '--chain.source=upstream',
        `--upstreams.default.nodes.0.rpc=${node.url('rpc')}`,
        `--upstreams.default.nodes.0.grpc=${node.url('grpc')}`,
        `--cluster.url=${urls[at]}`,
        `--cluster.gateway=${name}`,
      ],
    }),
  )
  servers.push(...(await Promise.all(started)))
})

afterEach(() => {
  for (const client of clients.splice(0)) client.close()
})

afterAll(async () => {
  await Promise.all(servers.map((server) => server.dispose()))
  link?.close()
  await node?.dispose()
  postgres?.dispose()
  delete process.env.SLUICE_CLUSTER__URL
  removeFolders()
})

/** A client of each gateway with a token of a new plan, which is full; and what they spent so far. */
async function newClients(endpoint: Endpoint) {
  const { subscription, token } = await provision(newFolder(), `c${++labels}`, '--product=bundle')
  let spent = 0
  const connect = async (server: Server) => {
    const client = await connectClient(server, endpoint, token).catch(() => null)
    if (client === null) return null
    spent += client.toConnect
    if ((await client.call()) === 'admitted') spent++
    else return client.close() ?? null
    clients.push(client)
    return client
  }
  const own: BudgetClient[] = []
  for (const server of servers)
    await until(async () => {
      const client = await connect(server)
      if (client !== null) own.push(client)
      return client !== null
    }, `the token at ${endpoint}`)
  // Longer than a grant: the next call is the first one of its gateway again.
  await sleep(2_300)
  return { id: subscription.id, clients: own, spent }
}

/** At most burst + rate x time and 5 % of the burst, at any time of it. */
function expectWithin(load: BudgetLoad): void {
  expect(load.counts.admitted).toBeLessThanOrEqual(load.allowed + burst * 0.05)
  expect(load.counts.failed, load.problems.join()).toBe(0)
}

async function spend(load: BudgetLoad, forMs = spendMs): Promise<void> {
  const endMs = load.elapsedMs + forMs
  // A busy machine may need longer to use its plan; it never gets more.
  const isUsed = () => load.used >= usable
  while (load.elapsedMs < endMs || (!isFull && !isUsed() && load.elapsedMs < endMs + 20_000)) {
    await sleep(20)
    expectWithin(load)
  }
}

function report(scenario: string, load: BudgetLoad): void {
  if (!isFull) return
  const { admitted, refused, failed } = load.counts
  const share = ((100 * admitted) / load.allowed).toFixed(1)
  console.info(
    `${scenario}: admitted ${admitted} of ${Math.round(load.allowed)} (${share} %), refused ${refused}, failed ${failed}`,
  )
}

describe.skipIf(!isHere).each(isFull ? endpoints : (['grpc'] as const))(
  'one budget, %s',
  (endpoint) => {
    it('is usable through one gateway, and through all', async () => {
      for (const count of [1, names.length]) {
        const stage = await newClients(endpoint)
        const load = new BudgetLoad(stage.clients.slice(0, count)).saturate()
        await spend(load)
        await load.stop()
        report(`${endpoint}, ${count} saturated`, load)
        expectWithin(load)
        expect(load.used).toBeGreaterThanOrEqual(usable)
      }
    })

    it.runIf(isFull)('is not exceeded by a burst on all gateways at once', async () => {
      const stage = await newClients(endpoint)
      const load = new BudgetLoad(stage.clients)
      // As many as may be in flight.
      for (let round = 0; round < 5; round++)
        await Promise.all(
          stage.clients.flatMap((client) => Array.from({ length: 90 }, () => load.once(client))),
        )
      expectWithin(load)
      await sleep(3_000)
      load.saturate()
      await spend(load)
      await load.stop()
      report(`${endpoint}, a burst on all, 3 s of rest, saturated`, load)
      expectWithin(load)
    })

    it.runIf(isFull)('is usable by a client that changes the gateway every 500 ms', async () => {
      const stage = await newClients(endpoint)
      const startMs = performance.now()
      const current = () => Math.floor((performance.now() - startMs) / 500) % names.length
      const load = new BudgetLoad(stage.clients).saturate((at) => at === current())
      await spend(load)
      await load.stop()
      report(`${endpoint}, changes every 500 ms`, load)
      expectWithin(load)
    })

    it.runIf(isFull)('bounds a gateway that is cut off to its share, and repays it', async () => {
      const stage = await newClients(endpoint)
      const load = new BudgetLoad(stage.clients).saturate()
      await spend(load)
      link.swallow(true)
      // Until the others know that it is gone, and it knows that it is cut off.
      await sleep(3_000)
      const [before, beforeMs] = [load.counts.admitted, load.elapsedMs]
      await sleep(4_000)
      const perSecond = (1_000 * (load.counts.admitted - before)) / (load.elapsedMs - beforeMs)
      link.swallow(false)
      link.cut()
      await sleep(10_000)
      await load.stop()
      report(
        `${endpoint}, one cut off for 7 s at ${perSecond.toFixed(1)} credits/s, 10 s later`,
        load,
      )
      expect(perSecond).toBeLessThanOrEqual((rate + rate / names.length) * 1.05)
      expect(load.counts.admitted).toBeLessThanOrEqual(load.allowed * 1.02)
      expect(load.counts.failed, load.problems.join()).toBe(0)
    })

    it('serves without PostgreSQL within one plan per gateway, and counts exactly', async () => {
      const stage = await newClients(endpoint)
      const load = new BudgetLoad(stage.clients).saturate()
      await sleep(1_000)
      const [before, beforeMs] = [load.counts.admitted, load.elapsedMs]
      postgres.pause()
      await sleep(awayMs).finally(() => postgres.resume())
      const [admitted, ms] = [load.counts.admitted - before, load.elapsedMs - beforeMs]
      await sleep(1_000)
      await load.stop()
      report(
        `${endpoint}, PostgreSQL away, ${((1_000 * admitted) / ms).toFixed(1)} credits/s`,
        load,
      )
      expect(load.counts.failed, load.problems.join()).toBe(0)
      expect(admitted).toBeGreaterThan(0)
      expect(admitted).toBeLessThanOrEqual(names.length * (burst + (rate * ms) / 1_000))
      const answered = stage.spent + load.counts.admitted
      const usage = async () => {
        const sum = 'SELECT sum(credits) AS credits FROM sluice.usage_windows WHERE id = $1'
        const rows = await postgres.sql<{ credits: number }>(sum, [stage.id])
        return Number(rows[0]!.credits)
      }
      await until(async () => (await usage()) >= answered, 'the usage')
      await sleep(1_500)
      expect(await usage()).toBe(answered)
    })
  },
)
