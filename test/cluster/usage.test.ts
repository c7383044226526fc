// Usage of a whole gateway that is killed while PostgreSQL is away: all but its last second is
// counted after the next start, and once.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Devnode, startDevnode } from '../testkit/devnode.ts'
import { provision, type Server, startServer } from '../testkit/server.ts'
import { until } from '../testkit/until.ts'
import { UsageBill } from '../testkit/usage-bill.ts'
import { newFolder, removeFolders, seed } from './gateway-stage.ts'
import { hasPostgres, type Postgres, startPostgres } from './postgres.ts'

describe.skipIf(!hasPostgres())('usage of a gateway that is killed', () => {
  let postgres: Postgres
  let node: Devnode
  const servers: Server[] = []
  const folders = [newFolder(), newFolder()]
  const pushedBy = (gateway: number) => join(folders[gateway]!, 'usage.ndjson')

  const start = async (gateway = 0) => {
    const closed = ['websocket', 'grpc', 'metrics', 'tpu', 'shredstream', 'indexer']
    const server = await startServer({
      data: join(folders[gateway]!, 'data'),
      flags: [
        ...closed.map((name) => `--${name}.enabled=false`),
        '--chain.source=upstream',
        `--upstreams.default.nodes.0.rpc=${node.url('rpc')}`,
        `--upstreams.default.nodes.0.grpc=${node.url('grpc')}`,
        `--cluster.url=${postgres.url}`,
        `--cluster.gateway=g${gateway}`,
        `--usage.push.file=${pushedBy(gateway)}`,
        '--usage.push.everyMs=500',
      ],
    })
    servers.push(server)
    return server
  }

  const statusOf = async (server: Server, token: string) => {
    const answer = await fetch(server.url('rpc'), {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-token': token },
      body: '{"jsonrpc":"2.0","id":1,"method":"getVersion"}',
    })
    await answer.arrayBuffer()
    return answer.status
  }

  const creditsOf = async (id: string) => {
    const [row] = await postgres.sql<{ credits: number }>(
      'SELECT sum(credits) AS credits FROM usage_windows WHERE id = $1',
      [id],
    )
    return Number(row?.credits)
  }

  /** What the records that a gateway pushed add up to. */
  const billed = (id: string, gateway: number) => {
    const bill = new UsageBill()
    if (existsSync(pushedBy(gateway))) bill.take(readFileSync(pushedBy(gateway), 'utf8'))
    return bill.credits(id)
  }

  beforeAll(async () => {
    postgres = await startPostgres()
    await seed(postgres.url)
    node = await startDevnode({ slotMs: 400 })
  })
  afterAll(async () => {
    delete process.env.SLUICE_CLUSTER__URL
    await Promise.all(servers.map((server) => server.dispose()))
    await node?.dispose()
    postgres?.dispose()
    removeFolders()
  })

  it('is on disk a second later, and is counted exactly once', async () => {
    const { subscription, token } = await provision(newFolder(), 'acme', '--product=bundle')
    const counted = async () => {
      const rows = await postgres.sql<{ sum: string | null }>(
        'SELECT sum(calls) FROM usage_days WHERE id = $1',
        [subscription.id],
      )
      return Number(rows[0]?.sum ?? 0)
    }
    const first = await start()
    let calls = 0
    await until(async () => (await statusOf(first, token)) === 200, 'the new token')
    calls++
    for (; calls < 50; calls++) expect(await statusOf(first, token)).toBe(200)
    await until(async () => (await counted()) === calls, 'the usage of the first calls')
    postgres.stop()
    for (; calls < 150; calls++) expect(await statusOf(first, token)).toBe(200)
    // What the contract forgives, and time for a disk that is slow.
    await new Promise((resolve) => setTimeout(resolve, 3_000))
    await first.stop('SIGKILL')
    postgres.start()
    const second = await start()
    await until(async () => (await counted()) === calls, 'the usage of the killed process')
    // Another call goes through the whole pipeline, so that nothing of the first one can follow it.
    expect(await statusOf(second, token)).toBe(200)
    await until(async () => (await counted()) >= calls + 1, 'the usage of one more call')
    expect(await counted()).toBe(calls + 1)
    // What was pushed is the bill of the cluster, to the credit.
    const credits = await creditsOf(subscription.id)
    await until(() => billed(subscription.id, 0) >= credits, 'the records')
    expect(billed(subscription.id, 0)).toBe(credits)
  })

  it('of two gateways side by side is pushed by both, each its own part', async () => {
    const { subscription, token } = await provision(
      newFolder(),
      'two',
      '--product=bundle',
      '--plan=unlimited',
    )
    const { id } = subscription
    const both = [servers.at(-1)!, await start(1)]
    for (const server of both)
      await until(async () => (await statusOf(server, token)) === 200, 'the new token')
    for (let calls = 0; calls < 60; calls++)
      expect(await statusOf(both[calls % 2]!, token)).toBe(200)
    await until(async () => (await creditsOf(id)) >= 62, 'the usage of both')
    const credits = await creditsOf(id)
    await until(() => billed(id, 0) + billed(id, 1) >= credits, 'the records of both')
    expect(billed(id, 0) + billed(id, 1)).toBe(credits)
    expect([billed(id, 0), billed(id, 1)]).toEqual([31, 31])
  })
})
